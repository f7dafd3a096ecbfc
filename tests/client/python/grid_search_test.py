"""A grid search whose worker processes find, or start, one server by themselves."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from own_server import FULL, make_bundle, wait_until_none_names

SEARCH = """
import json, os, pathlib, time
import chorale_client
from chorale_client.sklearn import ChoraleRegressor
from sklearn.datasets import make_friedman1
from sklearn.model_selection import GridSearchCV

def score(model, X, y):
    # Each process waits for the other: else one that is quick would do it all.
    processes = pathlib.Path(os.environ["PROCESSES"])
    (processes / str(os.getpid())).touch()
    while len(list(processes.iterdir())) < int(os.environ["JOBS"]):
        time.sleep(0.01)
    state = pathlib.Path(os.environ["CHORALE_HOME"], "embedded/server.json")
    return {
        "score": model.score(X, y),
        "rows": model.context_.row_count,
        "process": os.getpid(),
        "keeper": json.loads(state.read_text())["keeper"],
    }

X, y = make_friedman1(n_samples=750, n_features=6, noise=0.5, random_state=0)
X[:, 5] = (X[:, 5] * 3).round()
search = GridSearchCV(
    ChoraleRegressor(),
    {"categorical_features": [None, [5]], "model": [None, "default"]},
    scoring=score,
    refit="score",
    cv=3,
    n_jobs=int(os.environ["JOBS"]),
    error_score="raise",
)
search.fit(X, y)
found = {
    name: [search.cv_results_[f"split{i}_test_{name}"].tolist() for i in range(3)]
    for name in ("score", "rows", "process", "keeper")
}
with chorale_client.connect() as client:
    contexts = [context.row_count for context in client.contexts()]
print(json.dumps({
    **found,
    "own": os.getpid(),
    "best": search.best_estimator_.predict(X[:5]).tolist(),
    "contexts": contexts,
}))
"""


def search(home: pathlib.Path, bundle: pathlib.Path, jobs: int) -> dict[str, Any]:
    """What the search found; its processes and their server have ended."""
    processes = home.with_name(f"{home.name}-processes")
    processes.mkdir()
    environment = {
        **os.environ,
        "CHORALE_HOME": str(home),
        "CHORALE_SERVER_BUNDLE": str(bundle),
        "JOBS": str(jobs),
        "PROCESSES": str(processes),
    }
    environment.pop("CHORALE_SERVER", None)
    done = subprocess.run(
        [sys.executable, "-c", SEARCH], env=environment, capture_output=True, text=True
    )
    wait_until_none_names(home)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.skipif(not FULL, reason="takes half a minute: tests/run.sh --full")
def test_workers_of_joblib_share_one_server(tmp_path: pathlib.Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    found = search(tmp_path / "home", bundle, jobs=2)
    processes = np.array(found["process"])
    assert len(np.unique(processes)) == 2
    assert found["own"] not in processes
    assert len(np.unique(found["keeper"])) == 1
    assert (np.array(found["rows"]) == 500).all()
    assert (np.array(found["score"]) > 0.8).all()
    alone = search(tmp_path / "alone", bundle, jobs=1)
    assert (np.array(alone["process"]) == alone["own"]).all()
    for what in ("score", "best"):
        np.testing.assert_array_equal(np.array(found[what]), np.array(alone[what]))
    assert alone["contexts"] == [750], "that of the best estimator"
    assert 750 in found["contexts"]
