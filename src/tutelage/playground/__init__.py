"""The playground: a page in the browser on which one teaches, is taught, and watches both; and its small server."""
