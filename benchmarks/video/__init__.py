"""What the video measures need: clips, the rivals' command lines, the pipeline itself, and what each of them costs."""
