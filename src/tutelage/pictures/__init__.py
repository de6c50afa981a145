"""Pictures of worlds, reachable sets and teaching rounds; plain data in, no algorithm is run."""
