"""The asyncio calls that draw joint samples of query rows of a registered table."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from chorale_client._asyncio_connection import AsyncioConnection
from chorale_client._blocking_sampling import BlockingSampling
from chorale_client._data_warnings import tell
from chorale_client._docstrings import like
from chorale_client._models_and_contexts import Description, Estimate
from chorale_client._options import Order, SampleOptions, Sampling, Total
from chorale_client._progress import Option
from chorale_client._samples import Samples
from chorale_client._sampling import Assembly, Block, SampleCall
from chorale_client._tables import Data

ClientT = TypeVar("ClientT", bound=AsyncioConnection)


class AsyncioSampling(Description[ClientT]):
    """The methods of `Context` that draw values of query rows."""

    @like(BlockingSampling.sample)
    async def sample(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        total: Total = None,
        paths: int = 1000,
        seed: int | None = None,
        first_path: int = 0,
        order: Order = "given",
        sampling: Sampling = "independent",
        log_densities: bool = False,
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        dtype: npt.DTypeLike = np.float64,
        progress: Option = None,
        timeout: float | None = None,
    ) -> Samples:
        """Draws joint samples; see `chorale_client.Context.sample`."""
        options = SampleOptions(
            paths,
            seed,
            order,
            log_densities,
            wrap,
            snap,
            local_rows,
            first_path,
            dtype,
            sampling,
            total,
        )
        call = SampleCall.about(self, rows, given, groupby, options)
        messages = self._client._messages(call, timeout)
        with call.progress(progress) as done:
            async with contextlib.aclosing(messages):
                assembly = Assembly(call, done)
                with assembly.keeping():
                    async for message in messages:
                        assembly.add(message)
        return assembly.finish()

    @like(BlockingSampling.stream)
    async def stream(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        paths: int = 1000,
        seed: int | None = None,
        first_path: int = 0,
        order: Order = "given",
        sampling: Sampling = "independent",
        log_densities: bool = False,
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        dtype: npt.DTypeLike = np.float64,
        timeout: float | None = None,
    ) -> AsyncGenerator[Block, None]:
        """Draws joint samples and yields blocks; see `chorale_client.Context.stream`.

        To cancel the call when you leave the loop, wrap the generator in `contextlib.aclosing`.
        """
        options = SampleOptions(
            paths, seed, order, log_densities, wrap, snap, local_rows, first_path, dtype, sampling
        )
        call = SampleCall.about(self, rows, given, groupby, options)
        tell(call.rows.warnings)
        async with contextlib.aclosing(self._client._messages(call, timeout)) as messages:
            async for message in messages:
                for block in call.blocks(message):
                    yield block

    @like(BlockingSampling.validate_sample)
    async def validate_sample(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        paths: int = 1000,
        order: Order = "given",
        log_densities: bool = False,
        wrap: bool = False,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> Estimate:
        """Validates a call of `sample`; see `chorale_client.Context.validate_sample`."""
        options = SampleOptions(paths, None, order, log_densities, wrap, True, local_rows)
        call = SampleCall.about(self, rows, given, groupby, options, validate_only=True)
        async with contextlib.aclosing(self._client._messages(call, timeout)) as messages:
            return call.estimate([message async for message in messages])
