"""Finding ``target_not_reached``: a host cannot use a path or address of a study."""

from __future__ import annotations

from seatrial.findings.rule import from_hosts
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.trials.fleet.analysis.hosts import FleetFacts

NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "9p")


class TargetNotReachedFigures(Figures, frozen=True, kw_only=True, tag="target_not_reached"):
    target: str
    hosts: list[str]
    obstacle: str

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"{', '.join(self.hosts)} cannot use {self.target}: {self.obstacle}.",
            cause="It is not mounted there, its server refuses the host, or a firewall blocks it.",
            next="Mount it on every host with the same options, or open the server's port.",
        )


@from_hosts(rank=1005, section="Hosts of a cluster")
def target_not_reached(facts: FleetFacts) -> list[Finding]:
    """Find hosts that cannot use a path or an address that was named.

    Means:
        A study with this target could not run on these hosts.

    Decided:
        A path does not exist or is not writable, or an address accepts no connection within 3 s.
        Critical.

    Do:
        Mount it on every host, or open the port.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for host in facts.hosts:
        for each in host.reached:
            is_path = bool(each.filesystem or each.source)
            obstacle = each.obstacle
            if not obstacle and is_path and not each.is_writable:
                obstacle = "it is not writable"
            if obstacle:
                found.setdefault((each.target, obstacle), []).append(host.name)
    return [
        Finding(
            severity="critical",
            cells=[],
            figures=TargetNotReachedFigures(target=target, hosts=hosts, obstacle=obstacle),
        )
        for (target, obstacle), hosts in found.items()
    ]


class MountsDifferFigures(Figures, frozen=True, kw_only=True, tag="mounts_differ"):
    target: str
    mounts: dict[str, str]

    def text(self) -> FindingText:
        seen = "; ".join(f"{host}: {mount}" for host, mount in self.mounts.items())
        return FindingText(
            sentence=f"{self.target} is mounted differently: {seen}.",
            cause="The hosts have other entries in fstab, or mounted it at different times.",
            next="Mount it with the same source and options on every host.",
        )


@from_hosts(rank=1006, section="Hosts of a cluster")
def mounts_differ(facts: FleetFacts) -> list[Finding]:
    """Find a network file system that the hosts have mounted with other sources or options.

    Means:
        The hosts mount the same path differently, for example with different versions of NFS or
        request sizes, or without `sync`.

    Decided:
        The path is on a network file system on some host, and source, type or options differ
        (addresses of the client itself are ignored). Warning.

    Do:
        Mount it with the same options on every host.
    """
    found = []
    for path in {each.target: None for host in facts.hosts for each in host.reached}:
        seen = {h.name: e for h in facts.hosts for e in h.reached if e.target == path}
        if not any(each.filesystem in NETWORK_FILESYSTEMS for each in seen.values()):
            continue
        mounts = {
            host: f"{each.source} {each.filesystem} "
            + ",".join(o for o in each.mount_options if not o.startswith("clientaddr="))
            for host, each in seen.items()
        }
        if len({*mounts.values()}) > 1:
            figures = MountsDifferFigures(target=path, mounts=mounts)
            found.append(Finding(severity="warning", cells=[], figures=figures))
    return found
