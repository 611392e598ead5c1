"""Operating-system services: files, processes, ownership, cores, memory and the progress display."""
