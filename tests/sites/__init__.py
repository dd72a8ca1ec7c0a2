"""The built wheel, installed in other Django sites."""
