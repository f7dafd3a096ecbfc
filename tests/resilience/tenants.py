#!/usr/bin/env python3
"""A tenant tries to learn of another's contexts, to use, to change and to evict them.

    build/resilience_python/bin/python tests/resilience/tenants.py [--long]

Two tenants with tokens share a server. One calls every method with the other's names in many forms,
with metadata that claims to be the other, and with tokens that are nearly right; each answer must be
the one that it gets for a name, or with a token, that nobody has. It fills the memory for contexts.
Then the other's contexts must be what and where they were, and give the same samples.

Then it compares times: of a name that the other has with one that nobody has, and of the
registration of a table that the other has with one that nobody has. Calls of both kinds take turns
in random order; "auc" is the probability that one of the first kind takes longer than one of the
second, 0.5 if nothing can be told. That the comparison can tell something is shown by a control: a
third of the median call, added to half of the calls.

Exits with status 1 if an answer differs or a context is not what it was, with verdict.ONLY_LATE if
a time tells something, or the control tells nothing. 600 timings of each kind, with --long 2500.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import math
import os
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import grpc
from service import ROOT, Server, pb, rpc, table
from verdict import Late, report

VICTIM, ATTACKER = 'victim', 'intruder'
SECRET, ABSENT = 'secret', 'absent'  # of the same length: the victim's name, and nobody's
# A difference is one if it is large enough to matter and not by chance.
AUC_MARGIN, SIGMAS = 0.05, 5.0
REGISTRATIONS = 40  # with --long 400

Metadata = tuple[tuple[str, str], ...]
Answer = tuple[str, ...]


def token(name: str) -> str:
    return hashlib.sha256(f'a token of {name} in a test'.encode()).hexdigest()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def names(context_id: str) -> list[str]:
    """Ways to name a context of the victim's."""
    return [f'contexts/{context_id}', context_id, f'contexts/{VICTIM}/{context_id}',
            f'{VICTIM}/{context_id}', f'{VICTIM}/contexts/{context_id}',
            f'tenants/{VICTIM}/contexts/{context_id}', f'contexts/{VICTIM}:{context_id}',
            f'contexts/{VICTIM}.{context_id}', f'contexts/{VICTIM}-{context_id}',
            f'contexts/{VICTIM}%2F{context_id}', f'contexts/{VICTIM}\x1f{context_id}',
            f'contexts/{VICTIM}\0{context_id}', f'contexts/../{VICTIM}/{context_id}',
            f'contexts/./{context_id}', f'contexts//{context_id}', f'/contexts/{context_id}',
            f'contexts/{context_id}/', f'contexts/{context_id}\0', f'contexts/{context_id}\0.npy',
            f' contexts/{context_id}', f'contexts/{context_id} ', f'CONTEXTS/{context_id}',
            f'contexts/{context_id.upper()}', f'contexts/{context_id[:-1]}', 'contexts/*',
            f'contexts/{context_id[:-1]}_', f'contexts/{context_id[:3]}%', f"contexts/{context_id}'--",
            f"contexts/x' OR context_id='{context_id}", f'contexts/{context_id}\u200b',
            f'contexts/{context_id}\u0301', 'contexts/' + context_id * 40]


CLAIMS: list[Metadata] = [
    (), (('x-tenant', VICTIM), ('tenant', VICTIM)), (('chorale-tenant', VICTIM),),
    (('x-chorale-tenant', VICTIM), ('x-role', 'admin'), ('role', 'admin')),
    (('x-forwarded-client-cert', f'Subject="CN={VICTIM}"'), ('x-forwarded-user', VICTIM)),
    (('chorale-context', f'{VICTIM}/{SECRET}'), ('forwarded', f'for={VICTIM}'))]


class Tenant:
    """Calls, and what is answered."""

    def __init__(self, port: int, name: str):
        self.name = name
        self.channel = grpc.insecure_channel(f'127.0.0.1:{port}', options=[
            ('grpc.use_local_subchannel_pool', 1)])
        self.stub = rpc.ChoraleStub(self.channel)
        self.credentials: Metadata = (('authorization', f'Bearer {token(name)}'),)

    def register(self, context_id: str, rows: object, claims: Metadata = ()) -> object:
        spec = pb.ContextSpec(context_id=context_id, target_column='y')
        return self.stub.RegisterContext(
            iter([pb.RegisterContextRequest(spec=spec), pb.RegisterContextRequest(rows=rows)]),
            timeout=60, metadata=self.credentials + claims)

    def calls(self) -> dict[str, Callable[[str, Metadata], object]]:
        """Of each method that takes a name."""
        def unary(method: str, request: Callable[[str], object]):
            return lambda name, metadata: getattr(self.stub, method)(
                request(name), timeout=60, metadata=metadata)

        targets = table(2)
        return {
            'GetContext': unary('GetContext', lambda name: pb.GetContextRequest(name=name)),
            'WarmContext': unary('WarmContext', lambda name: pb.WarmContextRequest(name=name)),
            'AppendRows': unary('AppendRows', lambda name: pb.AppendRowsRequest(
                name=name, rows=data(1, rows=2))),
            'DeleteContext': unary('DeleteContext', lambda name: pb.DeleteContextRequest(name=name)),
            'Predict': unary('Predict', lambda name: pb.PredictRequest(
                context=name, rows=targets)),
            'LogDensity': unary('LogDensity', lambda name: pb.LogDensityRequest(
                context=name, rows=targets, values=[1, 2])),
            'Sample': lambda name, metadata: list(self.stub.Sample(pb.SampleRequest(
                context=name, rows=targets, path_count=2, seed=1), timeout=60,
                                                                   metadata=metadata))}

    def answer(self, call: Callable[[str, Metadata], object], name: str, metadata: Metadata,
               *hide: str) -> Answer:
        """All that the answer says, but for the id of the request and what is to be hidden."""
        try:
            parts = ['OK', str(call(name, metadata))]
        except grpc.RpcError as error:
            parts = [error.code().name, error.details() or '', *sorted(
                f'{key}={value!r}' for key, value in error.trailing_metadata() or ()
                if key != 'x-request-id')]
        for text in (name, *hide):
            for form in (text, repr(text)[1:-1], repr(text.encode())[2:-1]):
                parts = [part.replace(form, '…') for part in parts]
        return tuple(parts)

    def samples(self, context_id: str) -> dict[tuple[int, int], float]:
        """By path and step: how they are cut into messages depends on what else runs."""
        values = {}
        for message in self.stub.Sample(pb.SampleRequest(
                context=f'contexts/{context_id}', rows=table(8), path_count=16, seed=11),
                                        timeout=60, metadata=self.credentials):
            for block in message.blocks.blocks:
                of_block = iter(block.values)
                for path, step in itertools.product(range(block.path_count),
                                                    range(block.step_count)):
                    values[block.first_path + path, block.first_step + step] = next(of_block)
        return values

    def contexts(self) -> dict[str, object]:
        answer = self.stub.ListContexts(pb.ListContextsRequest(page_size=1000), timeout=60,
                                        metadata=self.credentials)
        return {context.name: context for context in answer.contexts}


def data(seed: int, rows: int = 60) -> object:
    rng = random.Random(seed)
    columns = pb.Table()
    for name in ('x', 'y'):
        columns.columns.add(name=name).numeric.values.extend(rng.gauss(0, 1) for _ in range(rows))
    return columns


# ---- Answers --------------------------------------------------------------------------------


def by_name(attacker: Tenant) -> Iterator[str]:
    """Yields '' for each attempt that was answered as it should be, else what was wrong."""
    for method, call in attacker.calls().items():
        for (foreign, absent), claims in itertools.product(
                zip(names(SECRET), names(ABSENT)), CLAIMS):
            metadata = attacker.credentials + claims
            there = attacker.answer(call, foreign, metadata, SECRET, SECRET.upper(), SECRET[:-1],
                                    SECRET[:3])
            nowhere = attacker.answer(call, absent, metadata, ABSENT, ABSENT.upper(), ABSENT[:-1],
                                      ABSENT[:3])
            if there != nowhere:
                yield f'{method} {foreign!r} {claims}: {there}, and for nobody\'s: {nowhere}'
            elif there[0] == 'OK':
                yield f'{method} {foreign!r} {claims}: OK'
            else:
                yield ''


def by_registration(attacker: Tenant, secret_rows: object) -> Iterator[str]:
    """The same name and the same table are the attacker's own, as if the victim had none."""
    for rows, claims in itertools.product((secret_rows, data(999)), CLAIMS):
        ours = [attacker.register(name, rows, claims) for name in (SECRET, ABSENT)]
        same = ours[0].context.digest == ours[1].context.digest
        wrong = '' if same and not any(one.already_registered for one in ours) else str(ours)
        yield f'RegisterContext: {wrong}' if wrong else ''
        for name in (SECRET, ABSENT):
            attacker.stub.DeleteContext(pb.DeleteContextRequest(name=f'contexts/{name}'),
                                        timeout=60, metadata=attacker.credentials)


def by_token(attacker: Tenant) -> Iterator[str]:
    """Tokens that are nearly the victim's, or that only its file knows."""
    good, call = token(VICTIM), attacker.calls()['GetContext']
    unknown = attacker.answer(call, f'contexts/{SECRET}',
                              (('authorization', f'Bearer {sha256("nobody")}'),))
    for value in (good, f'bearer{good}', f'Bearer {good.upper()}', f'Bearer {good[:-1]}',
                  f'Bearer {good}0', f'Bearer {good} {good}', f'Bearer {good},{good}',
                  f'Basic {good}', f'Bearer {sha256(good)}', f'Bearer {good[:-1]}0', 'Bearer ',
                  'Bearer', '', f'Bearer "{good}"', f'Token {good}', f'Bearer {VICTIM}',
                  f'Bearer {VICTIM}:{good}', f'Bearer {token(ATTACKER)[:32]}{good[32:]}'):
        seen = attacker.answer(call, f'contexts/{SECRET}', (('authorization', value),))
        yield '' if seen == unknown and seen[0] == 'UNAUTHENTICATED' else f'token {value!r}: {seen}'
    both = attacker.credentials + (('authorization', f'Bearer {good[:-1]}'),)
    seen = attacker.answer(call, f'contexts/{SECRET}', both)
    yield '' if seen[0] in ('UNAUTHENTICATED', 'NOT_FOUND') else f'two tokens: {seen}'


def by_list(attacker: Tenant, victim: Tenant) -> Iterator[str]:
    """Lists, also with a page token that the victim was given."""
    page = victim.stub.ListContexts(pb.ListContextsRequest(page_size=1), timeout=60,
                                    metadata=victim.credentials)
    own = set(attacker.contexts())
    for page_token, claims in itertools.product(
            ('', page.next_page_token, SECRET, f'{VICTIM}/{SECRET}', '\0'), CLAIMS):
        try:
            seen = attacker.stub.ListContexts(
                pb.ListContextsRequest(page_size=1000, page_token=page_token), timeout=60,
                metadata=attacker.credentials + claims)
            strangers = {context.name for context in seen.contexts} - own
        except grpc.RpcError as error:
            strangers = set() if error.code() == grpc.StatusCode.INVALID_ARGUMENT else {str(error)}
        yield f'ListContexts {page_token!r}: {strangers}' if strangers else ''


# ---- Times ----------------------------------------------------------------------------------


def compare(first: list[float], second: list[float]) -> tuple[float, float]:
    """The auc, and how many standard deviations it is from 0.5 (Mann and Whitney)."""
    ranked = sorted([(value, True) for value in first] + [(value, False) for value in second])
    ranks = sum(rank for rank, (_, is_first) in enumerate(ranked, 1) if is_first)
    n, m = len(first), len(second)
    auc = (ranks - n * (n + 1) / 2) / (n * m)
    return auc, (auc - 0.5) / math.sqrt((n + m + 1) / (12 * n * m))


def take_turns(count: int, first: Callable[[int], object], second: Callable[[int], object], *,
               delay: float = 0, afterwards: Callable[[], object] = lambda: None) -> tuple[list[float], list[float]]:
    """Seconds of `count` calls of each; `delay` is added to the first ones.
    `afterwards` is called after each and not timed."""
    times: tuple[list[float], list[float]] = ([], [])
    rng = random.Random(count)
    for i in range(count):
        for which in rng.sample((0, 1), 2):
            begin = time.perf_counter()
            (first, second)[which](i)
            end = time.perf_counter() + (delay if which == 0 else 0)
            while (seconds := time.perf_counter()) < end:
                pass
            times[which].append(seconds - begin)
            afterwards()
    return times


def tells(title: str, times: tuple[list[float], list[float]]) -> bool:
    auc, sigmas = compare(*times)
    medians = [sorted(part)[len(part) // 2] * 1e6 for part in times]
    print(f'  {title}: {len(times[0])} and {len(times[1])} timings, medians {medians[0]:.0f} and '
          f'{medians[1]:.0f} us, auc {auc:.3f}, {sigmas:+.1f} standard deviations', flush=True)
    return abs(auc - 0.5) > AUC_MARGIN and abs(sigmas) > SIGMAS


def timings(attacker: Tenant, victim: Tenant, count: int, registrations: int) -> list[str]:
    wrong: list[str] = []
    of_one: list[float] = []

    def ignore_errors(call: Callable[[str, Metadata], object], name: str) -> None:
        try:
            call(name, attacker.credentials)
        except grpc.RpcError:
            pass

    for method in ('GetContext', 'Predict', 'DeleteContext', 'Sample'):
        call = attacker.calls()[method]
        times = take_turns(count,
                           lambda _, call=call: ignore_errors(call, f'contexts/{SECRET}'),
                           lambda _, call=call: ignore_errors(call, f'contexts/{ABSENT}'))
        if tells(f'{method} of another\'s and of nobody\'s', times):
            wrong.append(Late(f'{method} tells by its time whether another tenant has a context'))
        if method == 'GetContext':
            of_one = times[1]
    missing = attacker.calls()['GetContext']
    control = take_turns(count, *2 * [lambda _: ignore_errors(missing, f'contexts/{ABSENT}')],
                         delay=sorted(of_one)[len(of_one) // 2] / 3)
    if not tells('control: GetContext with a third more, and without', control):
        wrong.append(Late('the control was not noticed'))

    for i in range(registrations):
        victim.register(f'table-{i}', data(10_000 + i))

    def register(seed: int) -> None:
        attacker.register('new', data(seed))

    def forget() -> None:
        attacker.stub.DeleteContext(pb.DeleteContextRequest(name='contexts/new'), timeout=60,
                                    metadata=attacker.credentials)

    times = take_turns(registrations, lambda i: register(10_000 + i), lambda i: register(20_000 + i),
                       afterwards=forget)
    if tells('RegisterContext of another\'s table and of nobody\'s', times):
        wrong.append(Late('RegisterContext tells by its time whether another tenant has the table'))
    return wrong


# ---- All ------------------------------------------------------------------------------------


def fill_memory(attacker: Tenant) -> None:
    """Makes more contexts resident than the pool has room for."""
    for i in range(40):
        attacker.register(f'large-{i}', data(i, 1000))
        attacker.stub.WarmContext(pb.WarmContextRequest(name=f'contexts/large-{i}'), timeout=60,
                                  metadata=attacker.credentials)


def lookups(server: Server, result: str) -> int:
    """How many calls have found their context so."""
    return int(sum(count for labels, count in server.series('chorale_context_lookups_total')
                   if labels['result'] == result))


def run(options: argparse.Namespace, folder: pathlib.Path) -> list[str]:
    tokens = folder / 'tokens'
    tokens.write_text(''.join(f'{name} {sha256(token(name))} {name} register\n'
                              for name in (VICTIM, ATTACKER)), encoding='utf-8')
    os.chmod(tokens, 0o600)
    with Server(options.server, [f'--token_file={tokens}', '--context_pool_mib=4',
                                 *options.server_flag]) as server:
        victim, attacker = Tenant(server.port, VICTIM), Tenant(server.port, ATTACKER)
        secret_rows = data(1)
        victim.register(SECRET, secret_rows)
        victim.register('second', data(2))
        attacker.register('own', data(3))
        samples = victim.samples(SECRET)
        before = victim.contexts()
        attempts = [*by_name(attacker), *by_registration(attacker, secret_rows),
                    *by_token(attacker), *by_list(attacker, victim)]
        wrong = [one for one in attempts if one]
        fill_memory(attacker)
        evicted = int(server.metric('chorale_evictions_total'))
        print(f'  {len(attempts)} attempts, {len(wrong)} answered otherwise than for what nobody '
              f'has; {evicted} contexts made room for others of the attacker', flush=True)
        if evicted == 0:
            wrong.append('the pool was not filled')
        if victim.contexts() != before:
            wrong.append(f'the victim\'s contexts were {before}, are {victim.contexts()}')
        hits = lookups(server, 'hit')
        if victim.samples(SECRET) != samples:
            wrong.append('the victim\'s samples are others')
        if lookups(server, 'hit') != hits + 1:
            wrong.append('the victim\'s context was evicted')
        wrong += timings(attacker, victim, 2500 if options.long else 600,
                         10 * REGISTRATIONS if options.long else REGISTRATIONS)
        status = server.stop()
        if status != 0:
            wrong.append(f'the server ended with {status}')
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--server', type=pathlib.Path,
                        default=ROOT / 'build/release/server/chorale-server')
    parser.add_argument('--server_flag', action='append', default=[])
    parser.add_argument('--long', action='store_true')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = run(options, pathlib.Path(folder))
    return report(wrong)


if __name__ == '__main__':
    sys.exit(main())
