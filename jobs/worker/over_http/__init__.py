"""A worker without a database: the site's HTTP API is all that it knows of the queue."""
