"""Addresses and URLs, without a server: what is read, what is written, what is never shown."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.postgres import connection as room
from seatrial.postgres.connection import Address, Secret, connect, connection_error, parse_url

PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://anna@db.example:5433/shop",
            Address(host="db.example", port=5433, user="anna", dbname="shop"),
        ),
        ("postgres://anna@h/", Address(host="h", port=5432, user="anna", dbname="anna")),
        ("postgresql://a%40b@h/x%2Fy", Address(host="h", port=5432, user="a@b", dbname="x/y")),
        ("postgresql://u@[::1]:9/d", Address(host="::1", port=9, user="u", dbname="d")),
        ("postgresql://u@%2Frun%2Fpg/d", Address(host="/run/pg", port=5432, user="u", dbname="d")),
        (
            "postgresql:///d?host=/run/pg&user=u",
            Address(host="/run/pg", port=5432, user="u", dbname="d"),
        ),
        (
            "postgresql://u@h/d?sslmode=verify-full&sslrootcert=/a%20b.crt",
            Address(
                host="h",
                port=5432,
                user="u",
                dbname="d",
                parameters={"sslmode": "verify-full", "sslrootcert": "/a b.crt"},
            ),
        ),
    ],
)
def test_urls_are_read_as_libpq_reads_them(url, expected):
    assert parse_url(url) == (expected, None)


def test_the_password_is_apart_and_shows_itself_nowhere():
    address, secret = parse_url(f"postgresql://anna:{PASSWORD}%2F%40@h/d")
    assert secret is not None
    assert secret.reveal() == f"{PASSWORD}/@"
    shown = [repr(secret), str(secret), repr(address), address.as_url(), address.endpoint]
    shown += [str(msgspec.json.encode(address)), f"{address.environment()}"]
    assert not [text for text in shown if PASSWORD in text]
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


def test_the_environment_completes_a_url(monkeypatch):
    for name, value in {"HOST": "h2", "PORT": "99", "USER": "u2", "DATABASE": "d2"}.items():
        monkeypatch.setenv(f"PG{name}", value)
    found = Address(host="h2", port=99, user="u2", dbname="d2")
    assert parse_url("postgresql://") == (found, None)
    named = Address(host="h", port=1, user="u", dbname="d")
    assert parse_url("postgresql://u@h:1/d") == (named, None)


def test_without_a_host_a_socket_of_this_machine_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "_SOCKET_FOLDERS", (str(tmp_path),))
    assert parse_url("postgresql://u@/d")[0].host == "localhost"


words = st.text(st.characters(min_codepoint=33, max_codepoint=0x24F), min_size=1, max_size=12)
names = words.filter(lambda text: "@" not in text)
hosts = st.one_of(
    st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True),
    st.from_regex(r"/[a-z0-9./ -]{0,20}", fullmatch=True),
    st.just("fe80::1"),
)


@given(hosts, st.integers(1, 65535), words, names, st.sampled_from([{}, {"sslmode": "require"}]))
def test_an_address_comes_back_from_its_url(host, port, user, dbname, parameters):
    address = Address(host=host, port=port, user=user, dbname=dbname, parameters=parameters)
    assert parse_url(address.as_url()) == (address, None)


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{PASSWORD}@h/d",
        f"u:{PASSWORD}@h/d",
        f"postgresql://u:{PASSWORD}@@h/d",
        f"postgresql://u:p@{PASSWORD}@h/d",
        f"postgresql://u:p/{PASSWORD}@h/d",
        f"postgresql://h/d?p@{PASSWORD}",
        f"postgresql://u:%zz{PASSWORD}@h/d",
        f"postgresql://u:{PASSWORD}@h:70000/d",
        f"postgresql://u:{PASSWORD}@h:abc/d",
        f"postgresql://u@h:{PASSWORD}/d",
        f"postgresql://u:{PASSWORD}@h/d?nosuch=1",
        f"postgresql://u:{PASSWORD}@h/d?sslmode",
        f"postgresql://u:{PASSWORD}@[::1/d",
    ],
)
def test_a_malformed_url_is_refused_and_its_password_is_not_repeated(url):
    with pytest.raises(UsageError, match=r"is invalid.*percent-encoded") as caught:
        parse_url(url)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("postgresql://u@h1,h2/d", "several hosts"),
        ("postgresql://u@h1:1,h2:2/d", "several hosts"),
        (f"postgresql://u:{PASSWORD}@h/d?service=x", "parameter service.*sslmode"),
        (f"postgresql://u@h/d?sslpassword={PASSWORD}", "parameter sslpassword"),
    ],
)
def test_what_is_not_passed_on_is_named(url, reported):
    with pytest.raises(UsageError, match=reported) as caught:
        parse_url(url)
    assert PASSWORD not in str(caught.value)


def test_a_child_gets_the_address_by_its_environment_and_nothing_that_leads_elsewhere():
    address = Address(
        host="/run/pg", port=5433, user="u", dbname="d", parameters={"sslmode": "disable"}
    )
    base = {"PATH": "/bin", "PGSERVICE": "other", "PGHOSTADDR": "10.0.0.1", "PGOPTIONS": "-c x=1"}
    assert address.environment(base=base) == {
        "PATH": "/bin",
        "PGHOST": "/run/pg",
        "PGPORT": "5433",
        "PGUSER": "u",
        "PGDATABASE": "d",
        "PGSSLMODE": "disable",
    }
    with_password = address.with_dbname("e").environment(Secret(PASSWORD), base)
    assert (with_password["PGPASSWORD"], with_password["PGDATABASE"]) == (PASSWORD, "e")


def test_an_environment_that_leads_every_connection_elsewhere_is_refused(monkeypatch):
    monkeypatch.setenv("PGHOSTADDR", "10.0.0.1")
    with pytest.raises(UsageError, match="unset PGHOSTADDR"):
        connect(Address(host="/tmp", port=1, user="u", dbname="d"))


TWICE = (
    'connection failed: FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "u", database "d",'
    ' SSL encryption\nFATAL:  no pg_hba.conf entry for host "10.0.0.2", user "u", database "d",'
    " no encryption"
)


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ('FATAL: no pg_hba.conf entry for host "x", user "u", no encryption', "without TLS"),
        ('FATAL: no pg_hba.conf entry for host "x", user "u", SSL off', "without TLS"),
        (TWICE, "does not allow user u to connect to d from here"),
        ("FATAL:  sorry, too many clients already", "no connection left"),
        ("remaining connection slots are reserved for roles with", "no connection left"),
        ("FATAL:  the database system is starting up", "accepts no connections now"),
        (
            'could not translate host name "h" to address: Name',
            "The host of h:5432 could not be resolved",
        ),
        ("connection timeout expired", "did not answer"),
        ("SSL error: certificate verify failed", "TLS connection to h:5432 failed: SSL error"),
        ("FATAL: Passwort-Authentifizierung fehlgeschlagen", "The error is: FATAL: Passwort"),
    ],
)
def test_words_that_are_hard_to_provoke_are_distinguished(words, reported):
    error = connection_error(words, endpoint="h:5432", user="u", dbname="d")
    assert reported in str(error)
    assert error.exit_code == 6
