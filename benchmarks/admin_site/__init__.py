"""The same site with the videos and all their pages: what people look at."""
