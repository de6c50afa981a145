"""What was seen and kept: demonstrations, recordings, tables, files; sampling, selecting and showing a few."""
