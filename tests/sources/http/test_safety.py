"""Where a request may go: public addresses, the same origin, over TLS."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import ToolConnectionError, ToolError
from ahvn_tools.sources.http.checks import AllowedAddresses, is_public
from ahvn_tools.sources.http.sending import next_request
from tests.sources.http.service import redirect, respond, serve


@pytest.fixture
def resolve(monkeypatch):
    """Return a function that sets the addresses of all names; further calls are the answers to further questions."""
    answers: list[list[str]] = []

    def getaddrinfo(host, port, *_arguments, **_options):
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (socket.AF_INET6 if ":" in item else socket.AF_INET, socket.SOCK_STREAM, 6, "", (item, port))
            for item in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return lambda *lists: answers.extend(map(list, lists))


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "127.0.0.1", "127.8.8.8", "0.0.0.0", "169.254.169.254", "172.16.0.1", "192.168.1.1", "100.64.0.1",
        "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
        "2002:7f00:1::", "2001:0:7f00:1::", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "2001:db8::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_of_the_public_internet_is_not_allowed(address):
    assert not is_public(ipaddress.ip_address(address))
    assert not AllowedAddresses(False).allows("x.example", ipaddress.ip_address(address))
    assert AllowedAddresses(True).allows("x.example", ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_a_public_address_is_allowed(address):
    assert AllowedAddresses(False).allows("x.example", ipaddress.ip_address(address))


def test_hosts_and_networks_may_be_allowed():
    allowed = AllowedAddresses(["10.0.0.0/8", "db.internal", "*.acme.internal", "fd00::/8"])
    for host, address in [
        ("x", "10.1.1.1"), ("DB.internal.", "192.168.0.1"), ("a.acme.internal", "127.0.0.1"), ("x", "fd00::1"),
        ("x", "::ffff:10.0.0.1"),
    ]:  # fmt: skip
        assert allowed.allows(host, ipaddress.ip_address(address))
    for host, address in [("x", "192.168.0.1"), ("acme.internal", "127.0.0.1"), ("db.internal.evil", "127.0.0.1")]:
        assert not allowed.allows(host, ipaddress.ip_address(address))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0"])
def test_a_private_address_is_refused_unless_it_is_allowed(service, host, caplog):
    spec = ToolSpec.from_http("fetch", f"http://{host}:{service.port}/x")
    result = spec.exec()
    assert result.error.code == "connection"
    assert host.strip("[]") not in result.text
    assert "allow_private=" in caplog.text
    with pytest.raises(ToolConnectionError):
        spec.call()
    assert service.connections == 0


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1"])
async def test_other_spellings_of_a_private_address_are_refused(service, host):
    result = await ToolSpec.from_http("fetch", f"http://{host}:{service.port}/x").aexec()
    assert result.error.code == "connection"
    assert service.connections == 0


async def test_a_name_with_a_private_address_is_refused(service, resolve):
    resolve(["127.0.0.1"])
    spec = ToolSpec.from_http("fetch", f"http://api.example:{service.port}/x")
    assert (await spec.aexec()).error.code == "connection"
    assert service.connections == 0


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(service, resolve):
    """A name that has a public address when it is checked, and a private one afterwards, gains nothing."""
    resolve(["192.0.2.1"], ["127.0.0.1"])
    options = {"allow_private": ["192.0.2.0/24"], "timeout": 0.5, "retry_count": 0}
    spec = ToolSpec.from_http("fetch", f"http://api.example:{service.port}/x", **options)
    assert (await spec.aexec()).is_error
    assert service.connections == 0


async def test_of_several_addresses_only_the_allowed_ones_are_used(service, resolve):
    resolve(["10.0.0.1", "127.0.0.1"])
    spec = ToolSpec.from_http("fetch", f"http://api.example:{service.port}/x", allow_private=["127.0.0.0/8"])
    assert (await spec.aexec()).value == {"ok": True}
    assert service.last.headers["host"] == f"api.example:{service.port}"


async def test_the_next_address_is_tried_where_one_does_not_answer(service, resolve):
    resolve(["127.0.0.2", "127.0.0.1"])
    spec = ToolSpec.from_http("fetch", f"http://api.example:{service.port}/x", allow_private=True)
    assert (await spec.aexec()).value == {"ok": True}


async def test_a_name_without_an_address_is_a_connection_error(monkeypatch):
    def getaddrinfo(*_arguments, **_options):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    spec = ToolSpec.from_http("fetch", "https://api.example/x", retry_count=0)
    assert (await spec.aexec()).error.code == "connection"


def test_a_redirect_within_the_origin_is_followed(service):
    service.reply("/x", redirect("/y?a=1"))
    spec = ToolSpec.from_http("fetch", f"{service.url}/x", allow_private=True, headers={"X-Org": SecretStr("acme-1")})
    assert spec.call() == {"ok": True}
    assert service.last.target == "/y?a=1"
    assert service.last.headers["x-org"] == "acme-1"


@pytest.mark.parametrize(
    ("status", "method", "sent"),
    [
        ("301 X", "POST", ("GET", b"")),
        ("302 X", "POST", ("GET", b"")),
        ("303 X", "PUT", ("GET", b"")),
        ("302 X", "PUT", ("PUT", b'{"a":1}')),
        ("307 X", "POST", ("POST", b'{"a":1}')),
        ("308 X", "PATCH", ("PATCH", b'{"a":1}')),
    ],
)
def test_a_redirect_keeps_or_drops_the_method_as_http_says(service, status, method, sent):
    service.reply("/x", redirect("/y", status))
    ToolSpec.from_http("fetch", f"{service.url}/x", method=method, body=["a"], allow_private=True).call(a=1)
    assert (service.last.method, service.last.body) == sent


def test_a_redirect_to_another_origin_is_refused_by_default(service):
    with serve() as other:
        service.reply("/x", redirect(f"{other.url}/y"))
        spec = ToolSpec.from_http("fetch", f"{service.url}/x", allow_private=True)
        with pytest.raises(ToolError, match="to another server, which is not allowed"):
            spec.call()
        assert other.connections == 0


def test_a_redirect_to_another_origin_takes_no_credential_with_it(service):
    with serve() as other:
        service.reply("/x", redirect(f"{other.url}/y", "307 X"))
        spec = ToolSpec.from_http(
            "fetch",
            f"{service.url}/x",
            method="POST",
            body=["a"],
            follow_redirects=True,
            allow_private=True,
            auth_method="api_key",
            api_key=SecretStr("canary-1"),
            headers={"X-Key": SecretStr("canary-2"), "X-Plain": "canary-3"},
            header={"org": "X-Org"},
        ).bind("org", "org", "canary-4")
        assert spec.call(a=1) == {"ok": True}
        assert "canary" not in str(other.last.headers)
        assert other.last.headers["host"] == f"127.0.0.1:{other.port}"
        assert other.last.body == b'{"a":1}'


@pytest.mark.parametrize("status", ["302 X", "307 X", "308 X"])
@pytest.mark.parametrize(
    ("bound", "arguments"),
    [
        ({"pin": "canary-1"}, {"note": "a"}),
        ({"note": "canary-1"}, {"pin": "a"}),
        ({}, {"note": "a", "pin": {"password": "canary-1"}}),
    ],
)
def test_a_redirect_to_another_origin_takes_no_body_with_a_bound_or_secret_argument(service, status, bound, arguments):
    with serve() as other:
        service.reply("/x", redirect(f"{service.url}/y", status))
        service.reply("/y", redirect(f"{other.url}/z", status))
        spec = ToolSpec.from_http(
            "fetch", f"{service.url}/x", method="PUT", body=["pin", "note"], follow_redirects=True, allow_private=True
        )
        for name, value in bound.items():
            spec = spec.bind(name, name, value, secret=True)
        result = Toolkit("kit").add(spec).exec("fetch", arguments)
        assert "must not receive its body" in result.text
        assert "canary" in str(service.last.body)
        assert other.connections == 0


def test_a_renamed_bound_argument_stays_in_its_origin_too(service):
    with serve() as other:
        service.reply("/x", redirect(f"{other.url}/y", "307 X"))
        spec = ToolSpec.from_http(
            "fetch", f"{service.url}/x", method="POST", body=["a"], follow_redirects=True, allow_private=True
        ).transform(arguments={"a": {"name": "text"}})
        with pytest.raises(ToolError, match="must not receive its body"):
            spec.bind("text", "text", "canary-1").call()
        assert other.connections == 0


def test_a_see_other_redirect_to_another_origin_is_followed_without_the_body(service):
    with serve() as other:
        service.reply("/x", redirect(f"{other.url}/y", "303 X"))
        spec = ToolSpec.from_http(
            "fetch", f"{service.url}/x", method="POST", body=["a"], follow_redirects=True, allow_private=True
        ).bind("a", "a", "canary-1", secret=True)
        assert spec.call() == {"ok": True}
        assert (other.last.method, other.last.body) == ("GET", b"")


def test_redirects_can_be_switched_off(service):
    service.reply("/x", redirect("/y"))
    spec = ToolSpec.from_http("fetch", f"{service.url}/x", allow_private=True, follow_redirects=False)
    assert spec.exec().is_error
    assert len(service.received) == 1


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest",
        "http://[::1]:1/",
        "file:///etc/passwd",
        "http://a:b@127.0.0.1/",
        "http://[/",
    ],
)
async def test_a_redirect_to_a_private_address_or_no_address_is_refused(service, location):
    service.reply("/x", redirect(location))
    options = {"follow_redirects": True, "allow_private": ["127.0.0.1"], "retry_count": 0}
    result = await ToolSpec.from_http("fetch", f"{service.url}/x", **options).aexec()
    assert result.error.code in {"connection", "tool_error"}
    assert location not in result.text
    assert len(service.received) == 1


def test_endless_redirects_end(service):
    service.reply("/x", redirect("/x"))
    spec = ToolSpec.from_http("fetch", f"{service.url}/x", allow_private=True)
    with pytest.raises(ToolError, match="again and again"):
        spec.call()
    assert len(service.received) == 6


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for `api.example`, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api.example")]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("api.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    form, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, form, encryption))
    return folder / "cert.pem", folder / "key.pem"


async def test_the_certificate_is_checked_for_the_name_and_not_the_address(certificate, resolve, caplog):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    names: list[str | None] = []
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    resolve(["127.0.0.1"])
    with serve(tls) as service:
        options = {"allow_private": True, "ca_file": str(certificate[0]), "retry_count": 0}
        spec = ToolSpec.from_http("fetch", f"https://api.example:{service.port}/x", **options)
        assert (await spec.aexec()).value == {"ok": True}
        other = ToolSpec.from_http("fetch", f"https://evil.example:{service.port}/x", **options)
        assert (await other.aexec()).error.code == "connection"
        unknown = ToolSpec.from_http("fetch", f"https://api.example:{service.port}/x", allow_private=True)
        assert (await unknown.aexec()).error.code == "connection"
        assert names == ["api.example", "evil.example", "api.example"]  # no attempt is repeated
        assert "certificate" in caplog.text
        assert len(service.received) == 1


def test_a_redirect_from_https_to_http_is_refused():
    request = httpx2.Request("GET", "https://api.example/x")
    with pytest.raises(ToolError, match="not allowed"):
        next_request(request, 302, "http://api.example/x", follows=True)


def test_a_proxy_of_the_environment_is_used_only_where_it_is_asked_for(service, monkeypatch):
    with serve() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        ToolSpec.from_http("fetch", f"{service.url}/x", allow_private=True).call()
        assert proxy.connections == 0
        proxy.reply(f"{service.url}/x", respond("1"))
        assert ToolSpec.from_http("fetch", f"{service.url}/x", proxy="environment").call() == 1
        assert ToolSpec.from_http("fetch", f"{service.url}/x", proxy=proxy.url).call() == 1
        assert len(service.received) == 1
