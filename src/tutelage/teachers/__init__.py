"""Teachers: what to demonstrate, to a learner whose preferences are known or to be found out."""
