"""Errors of `summarize`, of the client and of a fake server."""

from __future__ import annotations

import re
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import pytest
from chorale_client import functionals
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale
from fake_known_values import NAN, Invalid
from fake_summaries import ROWS, summarized
from grpc import StatusCode


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("sum", "functionals: the type is str, must be a dictionary"),
        (functionals.sum(), "functionals: the type is Functional, must be a dictionary"),
        ({1: "sum"}, "functionals: the name 1 is not a string"),
        ([functionals.sum()], "functionals: a list has names of functions: pass a dictionary"),
        (["sum", "max", "sum"], "functionals: the name 'sum' is repeated"),
        ({"a": np.ones(5)}, "functionals['a']: array([1., 1., 1., 1., 1.]), must be a functional"),
        (["total"], "functionals['total']: 'total', must be a functional of chorale_client"),
        ({"a": functionals.sum}, "functionals['a']: <function sum at"),
        ({"a": [1]}, "functionals['a']: [1], must be a functional"),
        (["any"], "functionals['any']: 'any' requires a threshold: pass functionals.any(above=..."),
        ({"a": functionals.sum("z")}, "functionals['a']: there is no row with the label 'z'"),
        ({"a": functionals.sum([])}, "functionals['a']: rows: there are none"),
        ({"a": functionals.sum([True])}, "functionals['a']: rows: the mask has the shape (1,)"),
        (
            {"a": functionals.sum(["b", "a", "b"])},
            "functionals['a']: rows: the row 'b' is repeated",
        ),
        (
            {"a": functionals.sum(["b", "d"])},
            "functionals['a']: rows: none belongs to the group 'y'",
        ),
        (
            {"a": functionals.sum(["a", "b"], weights=[1.0])},
            "functionals['a'].weights: the shape is (1,), must be (2,): a weight for each row",
        ),
        (
            {"a": functionals.sum(["a", "b"], weights=[1.0, NAN])},
            "functionals['a'].weights: weight 1 is nan, must be finite",
        ),
        (
            {"a": functionals.sum(["a", "b"], weights=pd.Series({"a": 1.0, "c": 1.0}))},
            "functionals['a'].weights: its labels are not those of the rows: 'b' of the rows is",
        ),
    ],
    ids=str,
)
def test_functionals_that_are_invalid(
    fake: FakeChorale, context: chorale_client.Context, asked: Any, message: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(message)) as caught:
        context.summarize(ROWS, functionals=asked, groupby="store")
    assert caught.value.field == message.partition(":")[0]
    assert not fake.requests("Summarize")


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({}, "functionals: any() requires either above or below"),
        ({"above": 1.0, "below": 2.0}, "functionals: any() requires either above or below"),
        ({"above": NAN}, "functionals: any(): the threshold is nan, must be a finite number"),
        ({"below": "x"}, "functionals: any(): the threshold is 'x', must be a finite number"),
    ],
)
def test_thresholds_that_are_invalid(thresholds: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=re.escape(message)):
        functionals.any(**thresholds)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": 1}, "paths: 1, must be an integer of at least 2"),
        ({"return_paths": -1}, "return_paths: -1, must be an integer of at least 0"),
        ({"return_paths": 1001}, "return_paths: 1001, must be at most the number of paths, 1000"),
        ({"quantiles": [0.0]}, "quantiles: 0, must be between 0 and 1"),
        ({"order": "x"}, "order: 'x', must be 'given' or 'random'"),
        ({"covariance": "x"}, "covariance: 'x', must be True or False"),
        ({"groupby": "store", "local_rows": 9}, "local_rows: not possible with groupby"),
        ({"sampling": "x"}, "sampling: 'x', must be 'independent' or 'sobol'"),
        ({"estimator": "x"}, "estimator: 'x', must be 'conditional' or 'values'"),
        ({"given": np.ones((2, 5))}, "given: the values of all 5 rows are known"),
    ],
)
def test_arguments_that_are_invalid(
    fake: FakeChorale, context: chorale_client.Context, options: Any, message: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(message)):
        context.summarize(ROWS, **options)
    assert not fake.requests("Summarize")


def test_errors_of_the_server_name_functionals_rows_and_known_values(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    asked: dict[str, Any] = {"total": functionals.sum(["b", "a"]), "best": "argmax"}
    known = pd.Series({"b": 600.0, "c": 700.0})
    messages = {
        "functionals[0].rows[1]": "functionals['total'].rows[1]",
        "functionals[1].rows": "functionals['best'].rows",
        "functionals[2]": "functionals[2]",  # not of this request
        "functionals": "functionals",
        'rows.columns["town"].strings.values[1]': 'rows.columns["town"].strings.values[2]',
        "known.values[1]": "given",
    }
    for field, name in messages.items():
        text = f"{field}: is bad"
        failure = Failure(StatusCode.INVALID_ARGUMENT, text, fields=((field, "is bad"),))
        fake.answers["Summarize"].append(failure)
        with pytest.raises(Invalid) as caught:
            context.summarize(ROWS, functionals=asked, given=known, groupby="store")
        assert caught.value.field == name
        described = "given: row 1" if name == "given" else name
        assert str(caught.value) == caught.value.message == f"{described}: is bad"


def test_servers_without_the_method(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Summarize"].append(Failure(StatusCode.UNIMPLEMENTED, "no such method"))
    with pytest.raises(
        chorale_client.UnimplementedError, match="summarize: the server does not support this"
    ):
        context.summarize(ROWS)
    assert len(fake.requests("Summarize")) == 1


@pytest.mark.parametrize(
    ("field", "count", "message"),
    [
        ("means", 5, "4 means instead of 5"),
        ("mean_errors", 5, "4 errors of means instead of 5"),
        ("stds", 5, "4 standard deviations instead of 5"),
        ("quantiles", 15, "14 quantiles instead of 15"),
        ("quantile_errors", 15, "14 errors of quantiles instead of 15"),
        ("covariances", 13, "12 covariances instead of 13"),
        ("paths", 10, "9 values of paths instead of 10"),
        ("functionals", 2, "1 functionals instead of 2"),
        ("functionals[0].means", 2, "1 means instead of 2"),
        ("functionals[0].quantiles", 6, "5 quantiles instead of 6"),
        ("functionals[1].stds", 5, "4 standard deviations instead of 5"),
    ],
)
def test_incomplete_responses(
    fake: FakeChorale, context: chorale_client.Context, field: str, count: int, message: str
) -> None:
    def incomplete(request: Any) -> pb.SummarizeResponse:
        answer = summarized(request)
        index = re.match(r"functionals\[(\d)\]\.", field)
        part: Any = answer.functionals[int(index[1])] if index else answer
        numbers = getattr(part, field.partition(".")[2] or field)
        assert len(numbers) == count
        del numbers[-1]
        return answer

    fake.answers["Summarize"].append(incomplete)
    with pytest.raises(chorale_client.DataLossError, match=re.escape(f"sent {message}")):
        context.summarize(
            ROWS,
            functionals=["sum", "argmax"],
            quantiles=[0.1, 0.5, 0.9],
            covariance=True,
            return_paths=2,
            groupby="store",
        )


def test_ignored_known_values(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Summarize"].append(pb.SummarizeResponse())
    with pytest.raises(chorale_client.UnimplementedError, match="given: the server does not"):
        context.summarize(ROWS, given=pd.Series({"a": 1.0}))
