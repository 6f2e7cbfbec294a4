"""The URL of a replica: which ones are accepted, and that secrets stay hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.coordinator.replication.replica_url import InvalidReplicaUrl, ReplicaUrl


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/var/replica", "file:///var/replica/000007"),
        ("file:///var/replica/", "file:///var/replica/000007"),
        ("s3://bucket", "s3://bucket/000007"),
        ("s3://bucket/path?endpoint=minio:9000", "s3://bucket/path/000007?endpoint=minio:9000"),
        ("sftp://me:pw@host:22/path", "sftp://me:pw@host:22/path/000007"),
    ],
)
def test_a_place_is_a_directory_below_the_url(text: str, place: str) -> None:
    url = ReplicaUrl.parse(text).with_number(7)
    assert url.url == place
    assert url.has_number
    assert not ReplicaUrl.parse(text).has_number
    assert ReplicaUrl.parse(text).with_number(1795064891).has_number, "a replica of a Litestream that you run yourself"


def test_a_relative_directory_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert ReplicaUrl.parse("replica").directory == tmp_path / "replica"


@pytest.mark.parametrize(
    "text", ["", "  ", "ftp://host/x", "file://host/x", "s3://", "file:x://", "sftp://me:topsecret@host:port/x"]
)
def test_an_invalid_url_is_rejected_without_its_password(text: str) -> None:
    with pytest.raises(InvalidReplicaUrl) as rejected:
        ReplicaUrl.parse(text)
    assert "topsecret" not in str(rejected.value)


def test_secrets_are_hidden_in_urls_and_messages() -> None:
    url = ReplicaUrl.parse("sftp://me:to%24psecret@host/path?secretKey=abc&x=1")
    assert url.shown == "sftp://me:***@host/path?secretKey=***&x=1"
    assert url.hide_secrets("cannot log in as me with to%24psecret, to$psecret or abc") == (
        "cannot log in as me with ***, *** or ***"
    )
    assert url.digest == ReplicaUrl.parse("sftp://me:other@host/path?secretKey=def&x=1").digest
    assert url.digest != ReplicaUrl.parse("sftp://me:other@host/path2?secretKey=def&x=1").digest
