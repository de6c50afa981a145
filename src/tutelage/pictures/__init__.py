"""Pictures of worlds, reachable sets and teaching rounds. They take plain data and run no algorithm."""
