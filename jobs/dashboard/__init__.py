"""What the dashboard shows: read from the database in a few bounded queries, worded, drawn.

Every query reads by an index and stops after a fixed number of rows, whatever the size of the queue. The page and its
live topics (`topics.py`) read the same, so a page is right when it is loaded and stays right.
"""
