"""The door of a server: who gets in without a token, https, and the commands that guard it."""

import ipaddress
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from place.cli import main
from place.errors import ConfigurationError
from place.runtime.durable.webhook import is_public
from place.server.settings import is_loopback
from place.server.store import ServerStore
from tests.harness.server import bearer, serving


def test_without_tokens_only_this_machine_by_its_own_name(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as running:
        assert running.http.get("/me").json() == {"name": "local", "role": "admin"}
        reply = running.http.get("/queries", headers={"Host": "rebound.example"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "cross_origin")
        # The first token closes the door, and revoking it does not open it again.
        token = running.server.store.create_token("root", "admin")
        assert running.http.get("/me").status_code == 401
        assert running.http.get("/me", headers=bearer(token)).status_code == 200
        running.server.store.revoke_token(token.split("_")[1])
        assert running.http.get("/me").status_code == 401
        assert running.http.get("/me", headers=bearer(token)).status_code == 401


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("fe80::1", False),
    ],
)
def test_addresses_of_the_public_internet(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


def test_https(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "1"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    with serving(tmp_path / "home", tls=(certificate, key), secure=True) as running:
        reply = running.http.get("/health")
        assert reply.status_code == 200
        assert "max-age" in reply.headers["Strict-Transport-Security"]
        token = running.server.store.create_token("root", "admin")
        cookie = running.http.post("/login", json={"token": token}).headers["set-cookie"]
        assert "Secure" in cookie


def test_a_body_that_does_not_come_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serving(tmp_path / "home", body_seconds=0.5) as running,
        socket.create_connection(("127.0.0.1", httpx.URL(running.url).port or 0), 10) as slow,
    ):
        head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        slow.sendall(f'{head}Content-Length: 100\r\n\r\n{{"sql": '.encode())
        heard = b""
        while chunk := slow.recv(65536):
            heard += chunk
        assert heard.startswith(b"HTTP/1.1 408 ")
        assert b'"code": "too_slow"' in heard
        assert running.http.get("/health").status_code == 200
    assert "Traceback" not in caplog.text
    assert "Exception in ASGI" not in caplog.text


def test_the_library_of_the_map_is_not_imported() -> None:
    """It would ask for the framework `shiny` with a warning."""
    code = (
        "import sys; from place.server.app import vendored;"
        " assert vendored('maplibre-gl.js') is not None; assert 'maplibre' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# The commands


def test_other_addresses_need_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert is_loopback("::1")
    assert not is_loopback("place.example")
    began = time.monotonic()
    home = ["--home", str(tmp_path)]
    assert main(["serve", *home, "--host", "0.0.0.0", "--port", "0"]) == 1
    assert "place token create" in capsys.readouterr().err
    assert time.monotonic() - began < 10, "Spark was started first"
    assert main(["serve", *home, "--tls-cert", "cert.pem"]) == 1
    assert "belong together" in capsys.readouterr().err
    for options, said in {
        ("--cors", "example.org"): "is no origin",
        ("--basemap", "tiles"): "is no address",
        ("--basemap", "https://example.org/tiles/{z}"): "neither tiles nor an archive",
        ("--basemap", __file__): "is no PMTiles archive",
        ("--tls-cert", __file__, "--tls-key", __file__): "no certificate and its key",
    }.items():
        assert main(["serve", *home, *options]) == 1
        assert said in capsys.readouterr().err
    assert main(["serve", "--home", __file__]) == 1
    assert "is not a directory" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["serve", *home, "--port", "99999"])
    assert main(["token", "list", "--home", str(tmp_path / "typo")]) == 1
    assert not (tmp_path / "typo").exists()


def test_tokens_are_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(tmp_path)]
    assert main(["token", "create", *home, "--name", "ann", "--role", "client"]) == 0
    text = capsys.readouterr().out.strip()
    store = ServerStore(tmp_path)
    token = store.check_token(text)
    assert token is not None
    assert (token.name, token.role) == ("ann", "client")
    assert text.rpartition("_")[2].encode() not in (tmp_path / "server.sqlite").read_bytes()
    assert main(["token", "list", *home]) == 0
    shown = capsys.readouterr().out
    assert token.id in shown
    assert text not in shown
    assert main(["token", "revoke", *home, token.id]) == 0
    assert store.check_token(text) is None
    assert main(["token", "revoke", *home, "nothing"]) == 1
    for name, role in (("local", "admin"), ("a b", "admin"), ("ann", "king")):
        with pytest.raises(ConfigurationError):
            store.create_token(name, role)
    store.close()
