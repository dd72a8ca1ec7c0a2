"""What takes longer than ten seconds by its nature."""
