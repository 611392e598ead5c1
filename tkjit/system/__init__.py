"""The operating system: files, processes, ownership, cores, memory and the progress display."""
