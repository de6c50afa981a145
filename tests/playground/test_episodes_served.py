"""The server teaches domains without discount as the library does."""

import base64
import json

import httpx
import numpy as np
import pytest
from episodic import ending_mdp, endless_mdp, episodic_domain
from playground_support import PATIENCE, running

import tutelage as tl
from tutelage.playground.server import Settings


def test_a_domain_without_discount_is_opened_and_taught(tmp_path):
    with (
        running(Settings(n_workers=1, time_limit=600.0)) as address,
        httpx.Client(base_url=address, timeout=PATIENCE) as client,
    ):
        for make in (ending_mdp, endless_mdp):
            rng = np.random.default_rng(2)
            domain, weights = episodic_domain(rng, make(rng, 8))
            tl.save(domain, tmp_path / "domain.npz")
            file = base64.b64encode((tmp_path / "domain.npz").read_bytes()).decode()
            about = client.post("/api/domain", json={"file": file})
            assert about.status_code == 200, about.text
            limits = [{"name": name, "allowance": 3.0} for name in domain.preference_names]
            scene = {
                "domain": {"file": file, "weights": weights.tolist()},
                "learner": {"model": "hard", "preferences": limits},
            }
            done = client.post("/api/domain/teach", json=scene | {"teacher": "aware_cmdp"})
            best = tl.AwareCmdpTeacher(domain, weights, tl.HardLearner(domain, violation_allowance=3.0)).plan().achieved
            events = [json.loads(line[6:]) for line in done.text.splitlines() if line.startswith("data: {")]
            assert next(event["reward"] for event in events if "reward" in event) == pytest.approx(best, abs=1e-6)
