"""The playground: a web page to teach a learner, or to be taught, and its local server."""
