"""An older client with a newer server, and a newer client with an older server.

The older side speaks the API of the last release (proto/chorale/v1/released.binpb): it knows only
its methods and fields.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator
from typing import Any

import chorale_client
import grpc
import numpy as np
import pandas as pd
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from own_server import ROOT

RELEASED = ROOT / "proto/chorale/v1/released.binpb"
SERVICE = "chorale.v1.Chorale"
PENGUINS = pd.read_csv(ROOT / "datasets/penguins.csv")
HELD_OUT = pd.read_csv(ROOT / "datasets/penguins_heldout.csv")[:5]
TARGET = "body_mass_g"


class ReleasedApi:
    """The messages and methods of the last release."""

    def __init__(self) -> None:
        files = descriptor_pb2.FileDescriptorSet.FromString(RELEASED.read_bytes())
        self._pool = descriptor_pool.DescriptorPool()
        for file in files.file:  # in the order of their imports
            self._pool.Add(file)
        self.methods = list(self._pool.FindServiceByName(SERVICE).methods)
        # Whether requests and responses are streams, by method.
        self.streams = {
            method.name: (method.client_streaming, method.server_streaming)
            for file in files.file
            for service in file.service
            if file.package == "chorale.v1"
            for method in service.method
        }

    def message(self, name: str) -> Any:
        """Returns the class of a message of the package chorale.v1."""
        descriptor = self._pool.FindMessageTypeByName(f"chorale.v1.{name}")
        return message_factory.GetMessageClass(descriptor)

    def read(self, kind: Any, data: bytes) -> bytes:
        """Returns a message as the release passes it on: without fields that it does not know."""
        message = message_factory.GetMessageClass(kind).FromString(data)
        message.DiscardUnknownFields()
        return message.SerializeToString()

    def call(self, channel: grpc.Channel, method: Any) -> Callable[..., Any]:
        """Returns the stub of a method of the release."""
        of_client, of_server = self.streams[method.name]
        make = getattr(
            channel,
            f"{'stream' if of_client else 'unary'}_{'stream' if of_server else 'unary'}",
        )
        return make(  # type: ignore[no-any-return]
            f"/{SERVICE}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
        )


@pytest.fixture(scope="module")
def released() -> ReleasedApi:
    return ReleasedApi()


@pytest.fixture
def older_server(server: str, released: ReleasedApi) -> Iterator[str]:
    """A proxy that offers the real server as a server of the last release."""
    identity: Callable[[bytes], bytes] = bytes
    with grpc.insecure_channel(server) as channel:

        def handler(method: Any) -> Any:
            of_client, of_server = released.streams[method.name]
            kinds = f"{'stream' if of_client else 'unary'}_{'stream' if of_server else 'unary'}"
            forward = getattr(channel, kinds)(f"/{SERVICE}/{method.name}")

            def answer(requests: Any, context: Any) -> Any:
                metadata = [
                    (key, value)
                    for key, value in context.invocation_metadata()
                    if key.startswith("chorale-")
                ]
                known = (
                    (released.read(method.input_type, request) for request in requests)
                    if of_client
                    else released.read(method.input_type, requests)
                )
                try:
                    found = forward(known, metadata=metadata)
                    if not of_server:
                        return released.read(method.output_type, found)
                    return iter([released.read(method.output_type, one) for one in found])
                except grpc.RpcError as error:
                    context.set_trailing_metadata(error.trailing_metadata())
                    context.abort(error.code(), error.details())

            make = getattr(grpc, f"{kinds}_rpc_method_handler")
            return make(answer, request_deserializer=identity, response_serializer=identity)

        handlers = {method.name: handler(method) for method in released.methods}
        proxy = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        proxy.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        port = proxy.add_insecure_port("127.0.0.1:0")
        proxy.start()
        yield f"127.0.0.1:{port}"
        proxy.stop(None).wait()


def test_an_older_client_with_a_newer_server(
    server: str, real: chorale_client.Client, released: ReleasedApi
) -> None:
    context = real.register(PENGUINS, target=TARGET)
    rows = HELD_OUT[["flipper_length_mm"]]
    small = real.register(PENGUINS[["flipper_length_mm", TARGET]].dropna(), target=TARGET)
    table = released.message("Table")()
    column = table.columns.add(name="flipper_length_mm")
    column.numeric.values.extend(rows["flipper_length_mm"])
    name = f"contexts/{small.name}"
    source: dict[str, Any] = {"context": name, "rows": table}
    requests: dict[str, dict[str, Any]] = {
        "GetContext": {"name": name},
        "ListContexts": {},
        "WarmContext": {"name": name},
        "GetModel": {"name": f"models/{context.model}"},
        "ListModels": {},
        "Predict": {**source, "quantiles": [0.5]},
        "Sample": {**source, "path_count": 3, "seed": 7},
        "LogDensity": {**source, "values": HELD_OUT[TARGET].tolist(), "include_terms": True},
    }
    answers: dict[str, Any] = {}
    with grpc.insecure_channel(server) as channel:
        for method in released.methods:
            if method.name in requests:
                request = released.message(method.input_type.name)(**requests[method.name])
                answer = released.call(channel, method)(request)
                answers[method.name] = list(answer) if released.streams[method.name][1] else answer
    assert set(answers) == set(requests)
    assert answers["GetContext"].row_count == small.row_count
    assert answers["ListModels"].models[0].component_count > 0
    np.testing.assert_array_equal(
        answers["Predict"].quantiles, small.predict(rows, quantiles=[0.5]).quantiles[:, 0]
    )
    values = np.full((3, len(rows)), np.nan)
    for response in answers["Sample"]:
        for block in response.blocks.blocks:
            paths = slice(block.first_path, block.first_path + block.path_count)
            steps = slice(block.first_step, block.first_step + block.step_count)
            values[paths, steps] = np.reshape(block.values, (block.path_count, block.step_count))
    np.testing.assert_array_equal(values, small.sample(rows, paths=3, seed=7).values)
    assert len(answers["LogDensity"].terms) == len(rows)


def test_a_newer_client_with_an_older_server(
    older_server: str, real: chorale_client.Client
) -> None:
    texts = ["species", "island", "sex"]  # the last release has no columns of strings
    with chorale_client.connect(older_server) as client:
        context = client.register(PENGUINS.astype(dict.fromkeys(texts, "category")), target=TARGET)
        assert context.digest == real.register(PENGUINS, target=TARGET).digest
        newer = real.context(context.name)
        np.testing.assert_array_equal(
            context.sample(HELD_OUT, paths=3, seed=7).values,
            newer.sample(HELD_OUT, paths=3, seed=7).values,
        )
        predicted = context.predict(HELD_OUT, quantiles=[0.5])
        np.testing.assert_array_equal(
            predicted.quantiles, newer.predict(HELD_OUT, quantiles=[0.5]).quantiles
        )
        densities = context.log_density(HELD_OUT, HELD_OUT[TARGET])
        np.testing.assert_array_equal(
            densities.joint, newer.log_density(HELD_OUT, HELD_OUT[TARGET]).joint
        )
        assert [model.name for model in client.models()] == [m.name for m in real.models()]
        with pytest.raises(chorale_client.UnimplementedError):
            context.append(PENGUINS.astype(dict.fromkeys(texts, "category"))[:1])
        with pytest.raises(chorale_client.UnimplementedError, match="summarize: the server"):
            context.summarize(HELD_OUT)
        with pytest.raises(chorale_client.NotFoundError):
            client.context("absent")
