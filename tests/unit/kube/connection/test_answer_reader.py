"""Answers are read the same however the network cuts them into pieces, and nothing that comes does any harm."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from extender_service.kube.connection.answer_reader import AnswerReader

OK = b"HTTP/1.1 200 OK\r\n"


@dataclass(frozen=True)
class Outcome:
    """What became of an answer; `flaw` is None for one that could be read, as far as it came."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    is_whole: bool
    may_follow: bool
    flaw: str | None


def read(pieces: list[bytes], *, ends: bool = False) -> Outcome:
    """Read one answer; the connection `ends` after it or stays open."""
    reader = AnswerReader()
    reader.expect()
    flaw, surplus = None, False
    for piece in filter(None, pieces):
        if reader.is_whole:
            surplus = True
        elif flaw is None:
            flaw = reader.feed(piece)
    if ends and not reader.is_whole:
        reader.end()
    if flaw is not None:
        return Outcome(0, {}, b"", is_whole=False, may_follow=False, flaw=flaw)
    may_follow = reader.is_whole and not reader.is_last and not surplus and not ends
    body = reader.take()
    reader.close()
    return Outcome(reader.status, reader.headers, body, reader.is_whole, may_follow, flaw)


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def at_every_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


tokens = st.text("abcXYZ-09", min_size=1, max_size=12).map(lambda text: "X-" + text)
values = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40)
fields = st.lists(st.tuples(tokens, values), max_size=5)
bodies = st.binary(max_size=300)


def lines_of(headers: list[tuple[str, str]]) -> bytes:
    return "".join(f"{name}: \t{value}  \r\n" for name, value in headers).encode()


def in_chunks(body: bytes, sizes: list[int], trailers: list[tuple[str, str]]) -> bytes:
    chunks = [part for part in in_pieces(body, sizes) if part]
    framed = b"".join(b"%x;note=%d\r\n%b\r\n" % (len(part), len(part), part) for part in chunks)
    return framed + b"0\r\n" + lines_of(trailers) + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, Outcome]:
    """An answer as a server may send it, and what is to be read of it."""
    interim = b"".join(
        b"HTTP/1.1 103 Early Hints\r\n" + lines_of(more) + b"\r\n" for more in draw(st.lists(fields, max_size=2))
    )
    status, headers, body = draw(st.sampled_from([200, 201, 404, 409, 500])), draw(fields), draw(bodies)
    if closes := draw(st.booleans()):
        headers.append(("Connection", "close"))
    if draw(st.booleans()):
        headers.append(("Transfer-Encoding", "chunked"))
        rest = in_chunks(body, draw(st.lists(st.integers(0, 300), max_size=4)), draw(fields))
    else:
        headers.append(("Content-Length", str(len(body))))
        rest = body
    answer = interim + b"HTTP/1.1 %d Reason\r\n" % status + lines_of(headers) + b"\r\n" + rest
    known = {name.lower().encode(): value.encode() for name, value in headers}
    return answer, Outcome(status, known, body, is_whole=True, may_follow=not closes, flaw=None)


cuts = st.lists(st.integers(0, 1500), max_size=8)


@given(answers(), cuts)
def test_an_answer_is_read_as_it_was_sent_however_it_is_cut_into_pieces(
    answer: tuple[bytes, Outcome], where: list[int]
) -> None:
    sent, expected = answer
    assert read([sent]) == read(in_pieces(sent, where)) == read(at_every_byte(sent)) == expected


@given(answers(), cuts, st.binary(min_size=1, max_size=60))
def test_what_follows_an_answer_neither_changes_it_nor_answers_another_request(
    answer: tuple[bytes, Outcome], where: list[int], surplus: bytes
) -> None:
    sent, expected = answer
    for pieces in ([sent + surplus], [sent, surplus], in_pieces(sent + surplus, where), at_every_byte(sent + surplus)):
        outcome = read(pieces)
        assert (outcome.status, outcome.body, outcome.flaw) == (expected.status, expected.body, None)
        # Empty lines before the next answer are none (RFC 9112, section 2.2).
        assert not outcome.may_follow or not surplus.strip(b"\r\n")


@given(answers(), st.integers(1, 400))
def test_an_answer_that_is_cut_short_is_not_whole(answer: tuple[bytes, Outcome], missing: int) -> None:
    sent, _ = answer
    for ends in (False, True):
        assert not read([sent[:-missing]], ends=ends).is_whole


@st.composite
def damaged_answers(draw: st.DrawFn) -> bytes:
    sent, _ = draw(answers())
    for _ in range(draw(st.integers(1, 4))):
        at, count = draw(st.integers(0, len(sent))), draw(st.integers(0, 6))
        sent = (
            sent[:at]
            + draw(st.binary(max_size=6) | st.sampled_from([b"\r\n", b"\0", b":", b"0", b" "]))
            + sent[at + count :]
        )
    return sent


@given(
    damaged_answers() | st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: OK + rest),
    cuts,
    st.booleans(),
)
@example(OK + b"Transfer-Encoding: chunked, x\r\n\r\nabc", [], True)
def test_whatever_comes_is_understood_in_one_way_only(sent: bytes, where: list[int], ends: bool) -> None:
    outcome = read([sent], ends=ends)
    for pieces in (in_pieces(sent, where), at_every_byte(sent)):
        assert read(pieces, ends=ends) == outcome
