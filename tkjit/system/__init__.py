"""The operating system: files, processes, ownership, cores and memory, and the line of progress."""
