"""The site that ships with Sprocket: settings, addresses and two job types to try."""
