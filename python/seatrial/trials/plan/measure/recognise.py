"""What this machine is rented as: provider, instance, region, volumes; no network request is made.

Sources: DMI (``/sys/class/dmi/id``), which names the type of a Nitro instance; cloud-init's
``/run/cloud-init/instance-data.json``; models of NVMe drives as AWS, Azure and Google name them.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any, Final

from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.trials.plan.analysis.rented import Recognised, RentedDisk

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
_SECTOR_BYTES: Final = 512


def recognise(tree: SystemTree) -> Recognised:
    """Return what the machine says about what it is rented as."""
    vendor = (tree.word("/sys/class/dmi/id/sys_vendor") or "").strip()
    product = (tree.word("/sys/class/dmi/id/product_name") or "").strip()
    provider = next((name for word, name in _VENDORS.items() if word in vendor.lower()), "")
    instance = product if provider == "aws" and "." in product else ""
    region = ""
    said_by = ["/sys/class/dmi/id"] if provider else []
    data = _cloud_init(tree)
    standard = data.get("v1", {}) if isinstance(data.get("v1"), dict) else {}
    if standard:
        said_by.append(_CLOUD_INIT)
        provider = provider or _CLOUDS.get(str(standard.get("cloud_name", "")).lower(), "")
        region = str(standard.get("region") or "")
        instance = instance or _type_in(data)
    return Recognised(
        provider=provider, instance=instance, region=region, said_by=said_by, disks=_disks(tree)
    )


def _cloud_init(tree: SystemTree) -> dict[str, Any]:
    try:
        data = json.loads(tree.text(_CLOUD_INIT) or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _type_in(data: dict[str, Any]) -> str:
    """Return the type of an instance in what cloud-init keeps of AWS, Azure or Google."""
    below: Any = data.get("ds", {})
    meta = below.get("meta_data", {}) if isinstance(below, dict) else {}
    if not isinstance(meta, dict):
        return ""
    compute = meta.get("imds", {}).get("compute", {}) if isinstance(meta.get("imds"), dict) else {}
    named = meta.get("instance-type") or compute.get("vmSize") or meta.get("machine-type") or ""
    return PurePosixPath(str(named)).name.removeprefix("Standard_")


def _disks(tree: SystemTree) -> list[RentedDisk]:
    found = []
    for name in sorted(tree.names("/sys/block")):
        model = " ".join((tree.text(f"/sys/block/{name}/device/model") or "").split())
        sectors = tree.integer(f"/sys/block/{name}/size")
        if not model or not sectors:
            continue
        kind = next((kind for word, kind in _MODELS.items() if word in model.lower()), "")
        found.append(
            RentedDisk(name=name, kind=kind, model=model, size_bytes=sectors * _SECTOR_BYTES)
        )
    return found
