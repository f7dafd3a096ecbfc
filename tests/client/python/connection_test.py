"""Connecting, calls about contexts, retries, cancellation and processes, by a fake server."""

from __future__ import annotations

import contextlib
import pickle
import socket
import subprocess
import sys
import threading
import warnings
from typing import Any

import chorale_client
import grpc
import pandas as pd
import pytest
from chorale_client import _channel
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale, block, blocks, summary

ROWS = {"town": ["Kiel", "Bonn"], "area": [50, 60]}
UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE, "starting")
DROPPED = pb.Warning(reason=pb.Warning.REASON_DROPPED_COLUMN, column="x", message="x is dropped")


def test_connect_says_that_no_server_answers() -> None:
    with pytest.raises(chorale_client.UnavailableError, match=r"no server at 127\.0\.0\.1:1: "):
        chorale_client.connect("127.0.0.1:1", connect_timeout=0.01)
    with pytest.raises(ConnectionError):
        chorale_client.connect("127.0.0.1:1", connect_timeout=0)


def test_connect_takes_the_address_from_the_environment(
    fake: FakeChorale, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHORALE_SERVER", fake.address)
    with chorale_client.connect() as client:
        assert client.address == fake.address
        assert repr(client) == f"<Client of {fake.address}>"


def test_a_token_goes_with_each_call_but_not_unencrypted_to_other_machines(
    fake: FakeChorale,
) -> None:
    fake.context()
    with chorale_client.connect(fake.address, token="secret") as client:
        client.context("houses")
    assert fake.calls[0].metadata["authorization"] == "Bearer secret"
    assert fake.calls[0].metadata["chorale-context"] == "houses"
    with pytest.raises(chorale_client.InvalidArgumentError, match="without encryption"):
        chorale_client.connect("example.org:1", token="secret")
    with pytest.raises(chorale_client.InvalidArgumentError, match="printable ASCII"):
        chorale_client.connect(fake.address, token="with space")
    with pytest.raises(chorale_client.InvalidArgumentError, match='omit the word "Bearer"'):
        chorale_client.connect(fake.address, token="Bearer secret")
    with pytest.raises(chorale_client.InvalidArgumentError, match="TLS is requested"):
        chorale_client.connect(f"http://{fake.address}", tls=True)
    with pytest.raises(chorale_client.InvalidArgumentError, match="tls=False"):
        chorale_client.connect(f"https://{fake.address}", tls=False)


def test_secrets_are_not_shown() -> None:
    settings = chorale_client._channel.Settings("a:1", None, "secret", 1, 1, chorale_client.Retry())
    assert "secret" not in repr(settings)


def test_tls_to_a_server_without(fake: FakeChorale) -> None:
    with pytest.raises(chorale_client.UnauthenticatedError, match="does not speak TLS"):
        chorale_client.connect(f"https://{fake.address}", connect_timeout=60)
    with pytest.raises(chorale_client.InvalidArgumentError, match="not valid PEM"):
        tls = chorale_client.Tls(root_certificates=b"nonsense")
        chorale_client.connect(fake.address, tls=tls, connect_timeout=60)


def test_the_alert_of_a_server_that_refuses_the_handshake_is_named() -> None:
    def refuse() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x28")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(chorale_client.UnauthenticatedError, match="(?i)alert.handshake.fail"):
            chorale_client.connect(f"https://127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_the_certificate_of_a_server_behind_a_proxy_is_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class VerificationError(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str:
            return "SSL_ERROR_SSL: error:1000007d: CERTIFICATE_VERIFY_FAILED"

    def connect(*_: object, **__: object) -> None:
        raise AssertionError("past the proxy")

    settings = _channel.Settings("https://a.example:1", None, None, 1, 1, chorale_client.Retry())
    monkeypatch.setattr("socket.create_connection", connect)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("grpc_proxy", raising=False)
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    failure = _channel.Endpoint.of(settings).failure(VerificationError())
    assert isinstance(failure, chorale_client.UnauthenticatedError)
    assert "it has expired, is not valid yet, or is not signed" in str(failure)
    monkeypatch.setenv("no_proxy", "other.example, .EXAMPLE")
    with pytest.raises(AssertionError, match="past the proxy"):
        _channel.Endpoint.of(settings).failure(VerificationError())


def test_register_sends_the_spec_and_chunks(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    rows = 150_000
    fake.answers["RegisterContext"].append(
        pb.RegisterContextResponse(
            context=pb.Context(name="contexts/a"),
            warnings=[DROPPED],
        )
    )
    done: list[tuple[int, int]] = []
    with pytest.warns(chorale_client.DataWarning, match="x is dropped") as told:
        context = client.register(
            {"x": [1.5] * rows, "y": range(rows)},
            target="y",
            name="a",
            model="m",
            progress=lambda now, total: done.append((now, total)),
        )
    assert told[0].filename == __file__  # the caller's line, not one of the package
    assert [warning.reason for warning in context.warnings] == ["DROPPED_COLUMN"]
    [first, *chunks] = fake.requests("RegisterContext")[0]
    assert first.spec.context_id == "a"
    assert first.spec.target_column == "y"
    assert first.spec.model == "models/m"
    assert first.spec.row_count == rows
    assert len(chunks) > 1
    assert all(chunk.ByteSize() <= 512 << 10 for chunk in chunks)
    values = [value for chunk in chunks for value in chunk.rows.columns[1].numeric.values]
    assert values == list(range(rows))
    assert done[-1] == (rows, rows)
    assert len(done) == len(chunks)


def test_seasons_are_sought_unless_the_caller_says_no(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    context = pb.Context(name="contexts/a")
    context.features.add(name="month", type=pb.ColumnSummary.TYPE_NUMERIC, season_steps=12)
    fake.answers["RegisterContext"].extend([pb.RegisterContextResponse(context=context)] * 2)
    [feature] = client.register({"month": [1, 2], "y": [3, 4]}, target="y").features
    assert feature.season_steps == 12
    client.register({"month": [1, 2], "y": [3, 4]}, target="y", seasons=False)
    sent = [messages[0].spec.seasons for messages in fake.requests("RegisterContext")]
    assert sent == [pb.ContextSpec.SEASONS_UNSPECIFIED, pb.ContextSpec.SEASONS_OFF]


def test_rows_without_a_target_are_dropped_on_request(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    table = {"x": [1.0, 2.0], "y": [3.0, None]}
    with pytest.raises(chorale_client.InvalidArgumentError, match="missing_targets='drop'"):
        client.register(table, target="y")
    with pytest.raises(chorale_client.InvalidArgumentError, match="must be 'reject' or 'drop' or"):
        client.register(table, target="y", missing_targets="keep")  # type: ignore[arg-type]
    fake.answers["RegisterContext"].append(pb.RegisterContextResponse())
    client.register(table, target="y", missing_targets="drop")
    [messages] = fake.requests("RegisterContext")
    assert messages[0].spec.missing_targets == pb.ContextSpec.MISSING_TARGETS_DROP
    assert messages[0].spec.row_count == 2


def test_a_season_is_listed_but_not_warned_of(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    season = pb.Warning(reason=pb.Warning.REASON_SEASON, column="month", message="12 steps")
    snapped = pb.Warning(reason=pb.Warning.REASON_SNAPPED, column="y", message="whole numbers")
    season.severity = snapped.severity = pb.Warning.SEVERITY_INFO
    fake.answers["RegisterContext"].extend(
        [
            pb.RegisterContextResponse(warnings=[season, snapped]),
            pb.RegisterContextResponse(warnings=[season, DROPPED]),
        ]
    )
    table = {"month": [1, 2], "x": [0, 0], "y": [3, 4]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", chorale_client.DataWarning)
        context = client.register(table, target="y")
    assert [warning.reason for warning in context.warnings] == ["SEASON", "SNAPPED"]
    assert [warning.severity for warning in context.warnings] == ["info", "info"]
    with pytest.warns(chorale_client.DataWarning) as told:
        context = client.register(table, target="y")
    assert [str(warning.message) for warning in told] == ["x is dropped [DROPPED_COLUMN]"]
    assert [warning.reason for warning in context.warnings] == ["SEASON", "DROPPED_COLUMN"]
    assert [warning.severity for warning in context.warnings] == ["info", "warning"]


def test_names_follow_from_the_content(fake: FakeChorale, client: chorale_client.Client) -> None:
    def name(data: dict[str, list[object]], target: str = "My y", **more: Any) -> str:
        fake.answers["RegisterContext"].append(pb.RegisterContextResponse())
        client.register(data, target=target, **more)
        return str(fake.requests("RegisterContext")[-1][0].spec.context_id)

    table: dict[str, list[object]] = {"x": ["a", "b"], "My y": [1, 2]}
    names = [
        name(table),
        name({"x": ["a", "c"], "My y": [1, 2]}),
        name({"x": ["a", "b"], "My y": [1, 3]}),
        name({"z": ["a", "b"], "My y": [1, 2]}),
        name(table, model="other"),
        name(table, seasons=False),
    ]
    assert names[0] == name(table)
    assert len(set(names)) == len(names)
    assert names[0].startswith("my-y-")


def test_a_target_that_cannot_be_one_is_refused_before_anything_is_sent(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    table = {"price": [1.0, 2.0], "town": pd.Categorical(["a", "b"]), "gap": [1.0, None]}
    for target, message in {
        "Prices": "no column 'Prices'; did you mean 'price'",
        "town": "is categorical",
        "gap": "has 1 missing cells",
    }.items():
        with pytest.raises(chorale_client.InvalidArgumentError, match=message) as caught:
            client.register(table, target=target)
        assert caught.value.field == "target"
    with pytest.raises(chorale_client.InvalidArgumentError, match="no rows"):
        client.register({"y": []}, target="y")
    with pytest.raises(chorale_client.InvalidArgumentError, match="3 values for 2 rows"):
        client.register(table, target=[1, 2, 3])
    with pytest.raises(chorale_client.InvalidArgumentError, match="already has a column 'target'"):
        client.register({"target": [1, 2]}, target=[1, 2])
    assert not fake.calls


def test_a_list_without_an_end_is_refused(fake: FakeChorale, client: chorale_client.Client) -> None:
    for token in ("a", "b", "a"):
        fake.answers["ListContexts"].append(pb.ListContextsResponse(next_page_token=token))
    with pytest.raises(chorale_client.InternalError, match="the same page token twice"):
        client.contexts()


def test_server_info(fake: FakeChorale, client: chorale_client.Client) -> None:
    message = pb.ServerInfo(version="9.8.7", commit="abc", backend="cpu", device="avx2")
    unknown = 99  # of a newer server
    known = [pb.ServerInfo.FEATURE_TRACING, pb.ServerInfo.FEATURE_APPEND_ROWS]
    message.features.extend([*known, unknown])  # type: ignore[list-item]
    message.limits.max_paths = 5
    message.quotas.max_contexts = 7
    fake.answers["GetServerInfo"].append(message)
    info = client.server_info()
    assert (info.version, info.commit, info.backend, info.device) == ("9.8.7", "abc", "cpu", "avx2")
    assert info.features == ("tracing", "append_rows")
    assert (info.limits.max_paths, info.limits.max_values) == (5, 0)
    assert (info.quotas.max_contexts, info.quotas.max_concurrent_calls) == (7, 0)
    assert set(vars(info.limits)) == set(pb.ServerLimits.DESCRIPTOR.fields_by_name)
    assert set(vars(info.quotas)) == set(pb.TenantQuotas.DESCRIPTOR.fields_by_name)


def test_contexts_and_models_of_all_pages(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.answers["ListContexts"].extend(
        [
            pb.ListContextsResponse(contexts=[pb.Context(name="contexts/a")], next_page_token="t"),
            pb.ListContextsResponse(contexts=[pb.Context(name="contexts/b")]),
        ]
    )
    fake.answers["ListModels"].extend(
        [
            pb.ListModelsResponse(models=[pb.Model(name="models/m")], next_page_token="u"),
            pb.ListModelsResponse(models=[pb.Model(name="models/n", is_default=True, form="x")]),
        ]
    )
    assert [context.name for context in client.contexts()] == ["a", "b"]
    assert [(model.name, model.is_default, model.form) for model in client.models()] == [
        ("m", False, ""),
        ("n", True, "x"),
    ]
    assert fake.requests("ListContexts")[1].page_token == "t"
    assert fake.requests("ListContexts")[1].view == pb.CONTEXT_VIEW_FULL
    assert fake.requests("ListModels")[1].page_token == "u"


# ---- Retries -------------------------------------------------------------------------------


def test_calls_are_tried_again(fake: FakeChorale) -> None:
    told: list[tuple[str, float]] = []
    retry = chorale_client.Retry(first_delay=0.001, on_retry=lambda e, s: told.append((e.code, s)))
    busy = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "queue full", retry_delay=0.002)
    fake.answers["GetContext"].extend([UNAVAILABLE, busy])
    fake.context()
    with chorale_client.connect(fake.address, retry=retry) as client:
        assert client.context("houses").target == "price"
    assert len(fake.calls) == 3
    assert [code for code, _ in told] == ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]
    assert 0.001 <= told[0][1] <= 0.00125
    assert 0.002 <= told[1][1] <= 0.0025


def test_attempts_end(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.answers["GetContext"].extend([UNAVAILABLE] * 9)
    with pytest.raises(chorale_client.UnavailableError, match="starting"):
        client.context("houses")
    assert len(fake.calls) == 4


def test_what_cannot_help_is_not_tried_again(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    quota = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "quota")
    long = Failure(grpc.StatusCode.UNAVAILABLE, "busy", retry_delay=3000)
    fake.answers["GetContext"].extend([quota, long])
    with pytest.raises(chorale_client.ExhaustedError, match="quota"):
        client.context("houses")
    with pytest.raises(chorale_client.UnavailableError, match="try again in 3000 s"):
        client.context("houses")  # longer than the call may take
    fake.answers["DeleteContext"].append(UNAVAILABLE)
    with pytest.raises(chorale_client.UnavailableError):
        client.delete("houses")  # the first may have been done
    assert len(fake.calls) == 3


def test_a_registration_is_sent_again_as_a_whole(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    fake.answers["RegisterContext"].extend([UNAVAILABLE, pb.RegisterContextResponse()])
    client.register({"y": [1, 2]}, target="y")
    first, second = fake.requests("RegisterContext")
    assert first == second
    assert len(first) == 2


def test_a_stream_is_tried_again_only_before_its_first_block(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    fake.context()
    context = client.context("houses")
    whole = [blocks(block(0, 0, [[1.0, 2.0]])), summary()]
    fake.answers["Sample"].extend([[UNAVAILABLE], whole])
    assert context.sample(ROWS, paths=1).values.tolist() == [[1.0, 2.0]]
    assert len(fake.requests("Sample")) == 2
    fake.answers["Sample"].extend([[whole[0], UNAVAILABLE], whole])
    with pytest.raises(chorale_client.UnavailableError):
        context.sample(ROWS, paths=1)
    assert len(fake.requests("Sample")) == 3


# ---- Processes -----------------------------------------------------------------------------


def test_contexts_travel_to_worker_processes(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    for _ in range(3):
        fake.context()
    context = client.context("houses")
    copy = pickle.loads(pickle.dumps(context))
    assert (copy.name, copy.digest, copy.features) == (context.name, "d1", context.features)
    copy.refresh()
    copy.client.close()
    code = "import pickle, sys; c = pickle.load(sys.stdin.buffer); c.refresh(); print(c.target)"
    worker = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(context),
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert (worker.stdout, worker.stderr) == (b"price\n", b"")
    assert len(fake.requests("GetContext")) == 3


def test_a_forked_process_is_told_to_connect_itself(fake: FakeChorale) -> None:
    code = f"""
import os, chorale_client
client = chorale_client.connect({fake.address!r})
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    client.models()
except chorale_client.FailedPreconditionError as error:
    client.close()
    os._exit(0 if "forked" in str(error) else 1)
os._exit(2)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=240).returncode == 0
