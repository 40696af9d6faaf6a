"""Recognises a rented machine: provider, instance, region, volumes; without network requests.

Sources: DMI (``/sys/class/dmi/id``), which names the type of a Nitro instance; cloud-init's
``/run/cloud-init/instance-data.json``; models of NVMe drives as AWS, Azure and Google name them.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

import msgspec

from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.trials.plan.analysis.rented_machine import RentedDisk, RentedMachine
from seatrial.units import SECTOR_BYTES

_VENDORS: Final = {
    "amazon ec2": "aws",
    "microsoft corporation": "azure",
    "google": "gcp",
}
_CLOUDS: Final = {"aws": "aws", "ec2": "aws", "azure": "azure", "gce": "gcp", "gcp": "gcp"}
_CLOUD_INIT: Final = "/run/cloud-init/instance-data.json"
_MODELS: Final = {
    "amazon elastic block store": "volume",
    "msft nvme accelerator": "volume",
    "nvme_card-pd": "volume",
    "persistentdisk": "volume",
    "amazon ec2 nvme instance storage": "local",
    "microsoft nvme direct disk": "local",
    "nvme_card": "local",
}


def recognise(tree: SystemTree) -> RentedMachine:
    """Return the rented type of the machine as it describes itself."""
    vendor = (tree.word("/sys/class/dmi/id/sys_vendor") or "").strip()
    product = (tree.word("/sys/class/dmi/id/product_name") or "").strip()
    provider = next((name for word, name in _VENDORS.items() if word in vendor.lower()), "")
    instance = product if provider == "aws" and "." in product else ""
    region = ""
    said_by = ["/sys/class/dmi/id"] if provider else []
    data = _cloud_init(tree)
    if data is not None:
        said_by.append(_CLOUD_INIT)
        provider = provider or _CLOUDS.get(data.v1.cloud_name.lower(), "")
        region = data.v1.region or ""
        instance = instance or data.ds.meta_data.type
    return RentedMachine(
        provider=provider, instance=instance, region=region, said_by=said_by, disks=_disks(tree)
    )


class _Standard(msgspec.Struct):
    """Fields of cloud-init that all providers share."""

    cloud_name: str
    region: str | None = None


class _Compute(msgspec.Struct, rename={"size": "vmSize"}):
    size: str = ""


class _Imds(msgspec.Struct):
    compute: _Compute = msgspec.field(default_factory=_Compute)


class _MetaData(
    msgspec.Struct, rename={"aws_type": "instance-type", "google_type": "machine-type"}
):
    """Metadata of AWS, Azure or Google in cloud-init."""

    aws_type: str = ""
    google_type: str = ""
    imds: _Imds = msgspec.field(default_factory=_Imds)

    @property
    def type(self) -> str:
        """The type of the instance; empty where it is not known."""
        named = self.aws_type or self.imds.compute.size or self.google_type
        return PurePosixPath(named).name.removeprefix("Standard_")


class _Source(msgspec.Struct):
    meta_data: _MetaData = msgspec.field(default_factory=_MetaData)


class _InstanceData(msgspec.Struct):
    v1: _Standard
    ds: _Source = msgspec.field(default_factory=_Source)


def _cloud_init(tree: SystemTree) -> _InstanceData | None:
    try:
        return msgspec.json.decode(tree.text(_CLOUD_INIT) or "{}", type=_InstanceData)
    except msgspec.MsgspecError:
        return None


def _disks(tree: SystemTree) -> list[RentedDisk]:
    found = []
    for name in sorted(tree.names("/sys/block")):
        model = " ".join((tree.text(f"/sys/block/{name}/device/model") or "").split())
        sectors = tree.integer(f"/sys/block/{name}/size")
        if not model or not sectors:
            continue
        kind = next((kind for word, kind in _MODELS.items() if word in model.lower()), "")
        found.append(
            RentedDisk(name=name, kind=kind, model=model, size_bytes=sectors * SECTOR_BYTES)
        )
    return found
