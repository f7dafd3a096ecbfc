from __future__ import annotations

import copy
import gc
import itertools
import pathlib
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from chorale_client import Mixtures, _context_cache, serve
from chorale_client._modes import modes
from chorale_client.sklearn import ChoraleRegressor
from own_server import make_bundle
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

Table = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


@pytest.fixture(scope="module", autouse=True)
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that all tests of this file use, and estimators that name none find."""
    folder = tmp_path_factory.mktemp("sklearn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHORALE_SERVER_BUNDLE", str(make_bundle(folder / "bundle")))
        with serve(folder / "data", flags=["--backend=cpu"]) as server:
            patch.setenv("CHORALE_SERVER", server.address)
            yield server.address


@pytest.fixture
def client(address: str) -> Iterator[chorale_client.Client]:
    with chorale_client.connect(address, connect_timeout=300) as connected:
        yield connected


@pytest.fixture
def names(client: chorale_client.Client) -> Callable[[], set[str]]:
    """The contexts of estimators on the server, when those are forgotten that may be."""

    def list_names() -> set[str]:
        gc.collect()
        with _context_cache._mutex:
            _context_cache._forget_dropped()
        return {c.name for c in client.contexts() if c.name.startswith("sklearn-")}

    return list_names


@pytest.fixture(scope="module")
def table() -> Table:
    X, y = make_friedman1(n_samples=120, noise=0.5, random_state=0)  # noqa: N806
    return X, y


@parametrize_with_checks([ChoraleRegressor()])  # type: ignore[untyped-decorator]
@pytest.mark.filterwarnings("ignore")
def test_estimator_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_it_learns(table: Table) -> None:
    X, y = table  # noqa: N806
    model = ChoraleRegressor().fit(X[:100], y[:100])
    assert model.score(X[100:], y[100:]) > LinearRegression().fit(X[:100], y[:100]).score(
        X[100:], y[100:]
    )


def test_predictions_are_those_of_the_context(table: Table, client: chorale_client.Client) -> None:
    X, y = table  # noqa: N806
    model = ChoraleRegressor().fit(X[:100], y[:100])
    frame = {f"x{i}": X[:100, i] for i in range(X.shape[1])}
    context = client.register({**frame, "target": y[:100]}, target="target", name="same")
    expected = context.predict(X[100:], quantiles=[0.1, 0.5, 0.9])
    np.testing.assert_array_equal(model.predict(X[100:]), expected.means)
    np.testing.assert_array_equal(
        model.predict_quantiles(X[100:], [0.1, 0.5, 0.9]), expected.quantiles
    )
    samples = context.sample(X[100:], paths=30, seed=7)
    np.testing.assert_array_equal(
        model.sample_y(X[100:], 30, random_state=7), np.asarray(samples.values).T
    )
    assert model.log_density(X[100:], y[100:]) == context.log_density(X[100:], y[100:]).joint[0]
    two = model.log_density(X[100:], np.stack([y[100:], y[100:] + 1]))
    assert two.shape == (2,)
    assert two[0] > two[1]
    averaged = model.log_density(X[100:], y[100:], orders=3, random_state=1)
    assert averaged == model.log_density(X[100:], y[100:], orders=3, random_state=1)
    assert averaged != model.log_density(X[100:], y[100:], orders=3, random_state=2)
    assert model.context_.digest == context.digest
    context.delete()


def test_output_types(table: Table) -> None:
    X, y = table  # noqa: N806
    model = ChoraleRegressor().fit(X[:100], y[:100])
    rows = X[100:]
    full = model.predict(rows, output_type="full")
    main = model.predict(rows, output_type="main", quantiles=[0.2])
    assert set(main) == {"mean", "median", "mode", "quantiles"}
    assert set(full) == {*main, "mixtures"}
    assert len(full["quantiles"]) == 9
    assert len(main["quantiles"]) == 1
    for name in ("mean", "median", "mode"):
        np.testing.assert_allclose(model.predict(rows, output_type=name), full[name], rtol=1e-12)
    np.testing.assert_array_equal(full["median"], full["quantiles"][4])
    deciles = model.predict(rows, output_type="quantiles")
    assert len(deciles) == 9
    assert all((low < high).all() for low, high in itertools.pairwise(deciles))
    assert isinstance(full["mixtures"], Mixtures)
    around = full["mixtures"].density(full["mode"][:, None] + np.linspace(-0.5, 0.5, 11))
    assert (around.argmax(axis=1) == 5).all()
    with pytest.raises(ValueError, match="output_type"):
        model.predict(rows, output_type="mid")  # type: ignore[arg-type]


def test_modes_of_mixtures_that_are_known() -> None:
    mixtures = Mixtures(
        means=np.array([[0.0, 5.0], [1.0, 1.0], [0.0, 1.0]]),
        stds=np.array([[1.0, 0.5], [2.0, 0.1], [1.0, 1.0]]),
        weights=np.array([[0.6, 0.4], [0.5, 0.5], [0.5, 0.5]]),
    )
    found = modes(mixtures)
    # The narrow component is the higher one; one peak; two components so near that they make one.
    np.testing.assert_allclose(found, [5.0, 1.0, 0.5], atol=1e-4)
    none = np.empty((0, 2))
    assert modes(Mixtures(none, none, none)).shape == (0,)


def test_samples_are_joint_and_follow_the_random_state(table: Table) -> None:
    X, y = table  # noqa: N806
    model = ChoraleRegressor().fit(X[:100], y[:100])
    gaussian = GaussianProcessRegressor().fit(X[:100], y[:100])
    drawn = model.sample_y(X[100:], 200, random_state=3)
    assert drawn.shape == gaussian.sample_y(X[100:], 200).shape == (20, 200)
    np.testing.assert_array_equal(drawn, model.sample_y(X[100:], 200, random_state=3))
    assert (drawn != model.sample_y(X[100:], 200)).any()
    state = np.random.RandomState(0)
    assert (
        model.sample_y(X[100:], random_state=state) != model.sample_y(X[100:], random_state=state)
    ).any()
    with pytest.raises(ValueError, match="64"):
        model.sample_y(np.tile(X, (2, 1)), 1)
    assert model.sample_y(np.tile(X, (2, 1)), 1, wrap=True).shape == (240, 1)


def mixed_frame(rows: int = 80) -> tuple[pd.DataFrame, pd.Series]:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": random.normal(size=rows),
            "colour": pd.Categorical(random.choice(["red", "green", "blue"], rows)),
            "grade": pd.Categorical(random.integers(0, 3, rows)),  # numbers as categories
            "town": random.choice(["A", "B"], rows),
            "sold": random.random(rows) < 0.5,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(rows), "D"),
        },
        index=[f"row{i}" for i in range(rows)],
    )
    frame.loc["row3", "size"] = np.nan
    frame.loc["row4", "colour"] = np.nan
    frame.loc["row5", "town"] = None
    effect = frame["grade"].astype(int).map({0: 0.0, 1: 20.0, 2: 4.0})
    return frame, effect + frame["size"].fillna(0.0)


def test_frames_with_categories_and_missing_cells() -> None:
    X, y = mixed_frame()  # noqa: N806
    model = ChoraleRegressor().fit(X, y)
    kinds = {feature.name: feature.kind for feature in model.context_.features}
    assert kinds == {
        "size": "numeric",
        "colour": "categorical",
        "grade": "categorical",
        "town": "categorical",
        "sold": "numeric",
        "day": "numeric",
    }
    assert [feature.missing for feature in model.context_.features] == [1, 1, 0, 1, 0, 0]
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.score(X, y) > 0.5
    new = X.iloc[:4].copy()
    new["town"] = ["A", "C", None, "B"]  # one that is not known
    with pytest.warns(chorale_client.DataWarning, match="town"):
        assert np.isfinite(model.predict(new)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[list(reversed(X.columns))])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.drop(columns="town"))


def test_columns_that_the_caller_says_are_categories() -> None:
    random = np.random.default_rng(0)
    X = random.integers(0, 3, (90, 2)).astype(float)  # noqa: N806
    y = np.array([0.0, 20.0, 4.0])[X[:, 0].astype(int)]
    for features in ([0], np.array([0])):
        model = ChoraleRegressor(categorical_features=features).fit(X, y)
        assert [f.kind for f in model.context_.features] == ["categorical", "numeric"]
        assert model.score(X, y) > 0.9
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = ChoraleRegressor(categorical_features=["b"]).fit(frame, y)
    assert [f.kind for f in model.context_.features] == ["numeric", "categorical"]
    with pytest.raises(ValueError, match="categorical_features"):
        ChoraleRegressor(categorical_features=["c"]).fit(frame, y)


def test_a_feature_may_be_called_like_the_target(table: Table) -> None:
    X, y = table  # noqa: N806
    frame = pd.DataFrame(X[:, :2], columns=["target", "target_"])
    model = ChoraleRegressor().fit(frame, y)
    assert model.context_.target == "target__"
    assert model.predict(frame[:3]).shape == (3,)


def test_sparse_matrices_are_refused(table: Table) -> None:
    X, y = table  # noqa: N806
    sparse = scipy.sparse.csr_array(X)
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        ChoraleRegressor().fit(sparse, y)
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        ChoraleRegressor().fit(X, y).predict(sparse)


def test_before_fit() -> None:
    for ask in (
        lambda: ChoraleRegressor().predict([[1.0]]),
        lambda: ChoraleRegressor().sample_y([[1.0]]),
        lambda: ChoraleRegressor().context_,
    ):
        with pytest.raises(NotFittedError):
            ask()


def test_pipelines_and_output_of_frames() -> None:
    X, y = mixed_frame()  # noqa: N806
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), ["size"]), ("filled", SimpleImputer(), ["sold"])],
        remainder="passthrough",
    )
    pipeline = make_pipeline(columns, ChoraleRegressor()).set_output(transform="pandas")
    pipeline.fit(X, y)
    context = pipeline[-1].context_
    assert [f.name for f in context.features][:2] == ["scaled__size", "filled__sold"]
    assert context.features[3].kind == "categorical"
    assert pipeline.score(X, y) > 0.5
    plain = make_pipeline(FunctionTransformer(), ChoraleRegressor()).fit(X[["size", "day"]], y)
    assert plain.predict(X[["size", "day"]]).shape == (80,)
    logarithm = TransformedTargetRegressor(ChoraleRegressor(), func=np.log1p, inverse_func=np.expm1)
    assert logarithm.fit(X, y - y.min()).predict(X).shape == (80,)


def test_cross_validation_leaves_no_context(table: Table, names: Callable[[], set[str]]) -> None:
    X, y = table  # noqa: N806
    before = names()
    predicted = cross_val_predict(ChoraleRegressor(), X, y, cv=3)
    assert np.corrcoef(predicted, y)[0, 1] > 0.7
    assert names() == before


def test_a_grid_search_over_contexts_of_500_rows(names: Callable[[], set[str]]) -> None:
    X, y = make_friedman1(n_samples=750, n_features=6, noise=0.5, random_state=0)  # noqa: N806
    X[:, 5] = np.round(X[:, 5] * 3)
    before = names()
    search = GridSearchCV(
        ChoraleRegressor(),
        {"categorical_features": [None, [5]], "model": [None, "default"]},
        cv=3,
    )
    search.fit(X, y)
    assert search.n_splits_ == 3
    assert (search.cv_results_["mean_test_score"] > 0.8).all()
    assert search.best_estimator_.context_.row_count == 750
    assert len(names() - before) == 1, "that of the best estimator"
    del search
    assert names() == before


def test_contexts_are_forgotten_with_their_estimators(
    table: Table, names: Callable[[], set[str]]
) -> None:
    X, y = table  # noqa: N806
    before = names()
    first = ChoraleRegressor().fit(X, y)
    second = ChoraleRegressor().fit(X, y)
    (name,) = names() - before
    assert first.context_.name == second.context_.name == name
    first.fit(X, y + 1)
    assert len(names() - before) == 2
    del second
    assert name not in names()
    del first
    assert names() == before


def test_a_context_that_somebody_has_deleted_is_registered_again(
    table: Table, client: chorale_client.Client
) -> None:
    X, y = table  # noqa: N806
    model = ChoraleRegressor().fit(X, y)
    other = ChoraleRegressor().fit(X, y)
    expected = model.predict(X[:5])
    client.delete(model.context_.name)
    np.testing.assert_array_equal(model.predict(X[:5]), expected)
    np.testing.assert_array_equal(other.predict(X[:5]), expected)
    client.delete(model.context_.name)
    assert model.sample_y(X[:5], 3).shape == (5, 3)


def test_what_killed_processes_have_left_is_deleted_a_day_later(
    table: Table, client: chorale_client.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table  # noqa: N806
    columns = {"x": X[:, 0], "y": y}
    for name in ("sklearn-left", "mine"):
        client.register(columns, target="y", name=name)
    _context_cache._prepared.discard(client.address)
    ChoraleRegressor().fit(X, y)
    assert {"sklearn-left", "mine"} <= {c.name for c in client.contexts()}, "they are new"
    monkeypatch.setattr(_context_cache, "_ABANDONED", -_context_cache._ABANDONED)
    _context_cache._prepared.discard(client.address)
    ChoraleRegressor().fit(X, y + 2)
    left = {c.name for c in client.contexts()}
    assert "sklearn-left" not in left
    assert "mine" in left
    client.delete("mine")


def test_a_process_forgets_its_contexts_when_it_ends(
    tmp_path: pathlib.Path, names: Callable[[], set[str]]
) -> None:
    """Of its own, and of workers of multiprocessing."""
    code = (
        "import multiprocessing\n"
        "import numpy as np\n"
        "from chorale_client.sklearn import ChoraleRegressor\n"
        "x = np.arange(20.0)\n"
        "def fit(queue, number):\n"
        "    global model\n"
        "    model = ChoraleRegressor().fit(x[:, None], x + number)\n"
        "    queue.put(model.context_.name)\n"
        "if __name__ == '__main__':\n"
        "    spawn = multiprocessing.get_context('spawn')\n"
        "    queue = spawn.Queue()\n"
        "    process = spawn.Process(target=fit, args=(queue, 1))\n"
        "    process.start()\n"
        "    fit(queue, 2)\n"
        "    print(queue.get(), queue.get())\n"
        "    process.join()\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    before = names()
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert len(set(ended.stdout.split())) == 2, ended.stderr
    assert ended.stderr == ""
    assert names() == before


def test_pickles_and_copies_predict_the_same_elsewhere(
    table: Table, tmp_path: pathlib.Path
) -> None:
    X, y = table  # noqa: N806
    model = ChoraleRegressor().fit(X, y)
    expected = model.predict(X[:5])
    for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(same.predict(X[:5]), expected)
        assert same.context_.name == model.context_.name
    pickled = pickle.dumps(model)
    assert len(pickled) < 2 * (X.nbytes + y.nbytes)
    with serve(flags=["--backend=cpu"]) as other, other.connect() as client:
        same = pickle.loads(pickled).set_params(server=client)
        np.testing.assert_array_equal(same.predict(X[:5]), expected)
        assert len(client.contexts()) == 1
        del same, model
        _context_cache.forget_all()
        assert client.contexts() == []


def test_servers_are_given_by_address_or_client(
    table: Table, client: chorale_client.Client
) -> None:
    X, y = table  # noqa: N806
    by_client = ChoraleRegressor(client).fit(X, y)
    assert by_client.context_.client is client
    same = clone(by_client)
    assert same.get_params()["server"].address == client.address
    by_address = ChoraleRegressor(client.address).fit(X, y)
    np.testing.assert_array_equal(by_client.predict(X[:5]), by_address.predict(X[:5]))
    np.testing.assert_array_equal(same.fit(X, y).predict(X[:5]), by_address.predict(X[:5]))
    with pytest.raises(chorale_client.NotFoundError, match="no_such"):
        ChoraleRegressor(model="no_such").fit(X, y)


def test_warnings_name_the_line_of_the_caller(table: Table) -> None:
    X, y = table  # noqa: N806
    constant = X.copy()
    constant[:, 3] = 1.0
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ChoraleRegressor().fit(constant, y)
    (warning,) = [w for w in found if isinstance(w.message, chorale_client.DataWarning)]
    assert "x3" in str(warning.message)
    assert warning.filename == __file__
