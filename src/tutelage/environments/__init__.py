"""Where domains come from: the paper's object worlds, Gymnasium environments and road graphs."""
