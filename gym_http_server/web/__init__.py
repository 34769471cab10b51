"""The web side: gunicorn's workers, the routes, the pages, and what they call."""
