"""`tutelage infer` reads what `teach --save` and `save_demonstrations` wrote."""

from cli_support import printed, shown

import tutelage as tl


def test_infer_from_rounds_and_from_behaviour(tmp_path):
    """`teach --save` writes what `infer` reads; the intervals contain the truth."""
    rounds, walks = tmp_path / "rounds.npz", tmp_path / "walks.npz"
    place = ["--world", "published:1:6"]
    told = ["--mismatch-penalty", "3", "--violation-penalty", "2", "--teacher", "adaptive-bilevel"]
    shown("teach", *place, *told, "--option", "max_cells=0", "--max-rounds", "1", "--save", str(rounds))
    found = shown("infer", *place, "--rounds", str(rounds))
    low, high = found["mismatch_penalty"]
    assert low <= 3 and (high is None or high >= 3) and found["contradiction"] == ""
    assert "C_r" in printed("infer", *place, "--rounds", str(rounds))
    domain = tl.object_world(size=6, seed=1).domain("L5")
    policy = tl.uniform_policy(domain.mdp)
    tl.save_demonstrations(tl.sample_demonstrations(domain, policy, 30, rng=0), walks)
    behaviour = shown("infer", *place, "--demonstrations", str(walks), "--weights", "0,0,0")
    assert behaviour["n"] == 30 and len(behaviour["preferences"]) == 6
    assert "trajectories" in printed("infer", *place, "--demonstrations", str(walks))
