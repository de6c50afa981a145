"""Sources of domains: the paper's object worlds, Gymnasium environments and road graphs."""
