"""Volumes of types that are migrated to CSI, bound, waiting and named in pods; and claims that pods name twice."""

from collections.abc import Iterator
from itertools import count

from tests.conformance.edge_cases.case_builder import HOSTNAME, REGION, ZONE, CaseBuilder, Item, Source, everyone

_PLUGINS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
_OTHER_DRIVER = "csi.example.com"
_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"
_CLASSES = {
    "": "",
    "immediate": "Immediate",
    "wait": "WaitForFirstConsumer",
    "local": "WaitForFirstConsumer",
}


class Volumes:
    """Adds storage objects to a case."""

    def __init__(self, case: CaseBuilder) -> None:
        self._case = case
        self._rng = case.rng
        self._numbers: Iterator[int] = count()
        # A pod takes the smallest volume that suffices: if two were alike, the choice would be undefined.
        self._capacities = list(range(1, 900))
        self._rng.shuffle(self._capacities)

    def add_classes(self) -> None:
        """Add storage classes, one of which has a provisioner that is migrated."""
        provisioners = [_OTHER_DRIVER, *_PLUGINS, *_PLUGINS.values()]
        for name, mode in list(_CLASSES.items())[1:]:
            provisioner = "kubernetes.io/no-provisioner" if name == "local" else self._rng.choice(provisioners)
            fields: Item = {}
            if name == "wait" and self._rng.chance(0.3):
                zones = {"key": self._rng.choice([ZONE, _BETA_ZONE, "rack"]), "values": ["z1", "z1", "a"]}
                fields["allowedTopologies"] = [{"matchLabelExpressions": [zones]}]
            self._case.add(
                "storage.k8s.io/v1", "StorageClass", name, provisioner=provisioner, volumeBindingMode=mode, **fields
            )

    def add_limits(self, csi_nodes: float, in_tree: float) -> None:
        """Say which types are migrated on a node and how many volumes each driver attaches there, in a CSINode; and how
        many of each type the node attaches itself. Both with some probability."""
        rng = self._rng
        for node in self._case.nodes:
            for resource in ("aws-ebs", "gce-pd", "azure-disk", "cinder", "csi-csi.example.com"):
                if rng.chance(in_tree):
                    node["status"]["allocatable"][f"attachable-volumes-{resource}"] = rng.choice(["0", "1", "2"])
            if not rng.chance(csi_nodes):
                continue
            drivers: list[Item] = []
            for driver in rng.some([*_PLUGINS.values(), _OTHER_DRIVER], 2, 8):
                limit: Item = rng.choice(
                    [{}, {"allocatable": {}}, *({"allocatable": {"count": n}} for n in (0, 1, 2, 2, 3, 2**31 - 1))]
                )
                drivers.append({"name": driver, "nodeID": "id", "topologyKeys": [], **limit})
            item = self._case.add("storage.k8s.io/v1", "CSINode", node["metadata"]["name"], spec={"drivers": drivers})
            if rng.chance(0.8):
                plugins = rng.some(_PLUGINS, 0, 7) if rng.chance(0.5) else list(_PLUGINS)
                annotation = ",".join(rng.again(plugins) if rng.chance(0.2) else plugins)
                item["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": annotation}

    def bound_claim(self, pod: Item) -> str:
        """Add a claim of the pod's namespace, bound to a volume of any type, and return its name."""
        source = self._source()
        volume = self._volume(source, phase="Bound", labels=self._zone_labels(), terms=self._terms())
        return _name(self._claim(pod, self._rng.choice(["", "immediate", "wait"]), volume))

    def waiting_claim(self, pod: Item) -> str:
        """Add a claim that is provisioned or bound once its pod has a node, and return its name."""
        name = _name(self._claim(pod, self._rng.choice(["wait", "wait", "local"]), None))
        volumes = [
            self._volume(
                {"local": {"path": "/mnt"}},
                class_name=self._rng.choice(["local", "local", "wait"]),
                phase="Available",
                terms=[self._local_term()],
            )
            for _ in range(self._rng.randint(0, 3))
        ]
        if volumes and self._rng.chance(0.3):
            # Only one names the claim: among several the choice would be undefined.
            reference = {"kind": "PersistentVolumeClaim", "namespace": pod["metadata"]["namespace"], "name": name}
            self._case.find("PersistentVolume", volumes[0])["spec"]["claimRef"] = reference
        return name

    def claimed(self, pod: Item, claim: str, times: int = 1) -> list[Item]:
        """Return volumes of a pod that name a claim, as often as asked."""
        read_only = [{}, {"readOnly": True}]
        return [
            {
                "name": f"v{next(self._numbers)}",
                "persistentVolumeClaim": {"claimName": claim, **self._rng.choice(read_only)},
            }
            for _ in range(times)
        ]

    def inline(self) -> Item:
        """Return a volume of a pod that needs no claim."""
        return {"name": f"v{next(self._numbers)}", **self._inline_source()}

    def ephemeral(self, pod: Item) -> Item:
        """Return a generic ephemeral volume whose claim exists."""
        volume = f"v{next(self._numbers)}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        bound = self._volume(self._source(), phase="Bound") if self._rng.chance(0.7) else None
        name = f"{pod['metadata']['name']}-{volume}"
        claim = self._claim(pod, "immediate" if bound else "wait", bound, name)
        claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        return {"name": volume, "ephemeral": {"volumeClaimTemplate": template}}

    def _claim(self, pod: Item, class_name: str, volume: str | None, name: str | None = None) -> Item:
        rng = self._rng
        name = name or f"claim-{next(self._numbers)}"
        modes = rng.choice([["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteOnce"], ["ReadOnlyMany"]])
        size = rng.choice(["1", "1Gi", "1Gi", "400Gi", "8Ei", "0"])
        spec: Item = {
            "accessModes": modes,
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        }
        item = self._case.add(
            "v1", "PersistentVolumeClaim", name, pod["metadata"]["namespace"], spec=spec, status={"phase": "Pending"}
        )
        if volume is not None:
            spec["volumeName"] = volume
            item["status"]["phase"] = "Bound"
            item["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        return item

    def _volume(
        self,
        source: Item,
        phase: str,
        class_name: str = "immediate",
        labels: dict[str, str] | None = None,
        terms: list[Item] | None = None,
    ) -> str:
        name = f"volume-{next(self._numbers)}"
        spec = {
            "capacity": {"storage": f"{self._capacities.pop()}Gi"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "storageClassName": class_name,
            **source,
            **({} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}),
        }
        self._case.add("v1", "PersistentVolume", name, labels=labels, spec=spec, status={"phase": phase})
        return name

    def _source(self) -> Item:
        """Return a source of a PersistentVolume. Some of the handles are those of migrated volumes in CSI's form."""
        rng = self._rng
        number = rng.randint(1, 4)
        zone = rng.choice(["z1", "z2"])
        handles = {
            "ebs.csi.aws.com": [f"vol-{number}"],
            "pd.csi.storage.gke.io": [
                f"projects/UNSPECIFIED/zones/{place}/disks/disk-{number}" for place in (zone, "UNSPECIFIED")
            ],
            "disk.csi.azure.com": [f"/disks/{number}"],
            "file.csi.azure.com": [f"#account#share-{number}##secret", f"rg#account#share-{number}#"],
            "cinder.csi.openstack.org": [f"cinder-{number}"],
            "csi.vsphere.vmware.com": [f"[store] volume-{number}"],
            "pxd.portworx.com": [f"px-{number}"],
            _OTHER_DRIVER: [f"handle-{number}", ""],
        }
        driver = rng.choice(list(handles))
        return rng.choice(
            [
                {"csi": {"driver": driver, "volumeHandle": rng.choice(handles[driver])}},
                {"azureFile": {"secretName": "secret", "shareName": f"share-{number}", "secretNamespace": "default"}},
                {"rbd": {"monitors": ["m1"], "image": f"image-{number}", "pool": "rbd"}},
                {"nfs": {"server": "nfs.example.com", "path": f"/{number}"}},
                *[self._inline_source() for _ in range(5)],
            ]
        )

    def _inline_source(self) -> Item:
        rng = self._rng
        number, read_only = rng.randint(1, 4), rng.choice([{}, {"readOnly": True}])
        return rng.choice(
            [
                {
                    "awsElasticBlockStore": {
                        "volumeID": rng.choice(
                            [f"vol-{number}", f"aws://z1/vol-{number}", f"aws:///vol-{number}", f"aws://z1/{number}"]
                        ),
                        **read_only,
                    }
                },
                {"awsElasticBlockStore": {"volumeID": f"vol-{number}", "partition": number, "fsType": "ext4"}},
                {"gcePersistentDisk": {"pdName": f"disk-{number}", **read_only}},
                {"gcePersistentDisk": {"pdName": f"disk-{number}", "partition": number}},
                {"azureDisk": {"diskName": f"disk-{number}", "diskURI": f"/disks/{number}", **read_only}},
                {"cinder": {"volumeID": f"cinder-{number}", **read_only}},
                {"vsphereVolume": {"volumePath": f"[store] volume-{number}"}},
                {"portworxVolume": {"volumeID": f"px-{number}"}},
            ]
        )

    def _zone_labels(self) -> dict[str, str]:
        rng = self._rng
        labels = {}
        if rng.chance(0.3):
            labels[rng.choice([ZONE, _BETA_ZONE])] = rng.choice(["z1", "z1__z2", "z2__", "__", "", "z1__z1"])
        if rng.chance(0.2):
            labels[rng.choice([REGION, _BETA_REGION])] = rng.choice(["r1", "r1__r2", ""])
        return labels

    def _terms(self) -> list[Item] | None:
        rng = self._rng
        zone = {"key": rng.choice([ZONE, _BETA_ZONE]), "operator": "In", "values": ["z1", "z1", "z2"]}
        return rng.choice([None, None, [self._local_term()], [{"matchExpressions": [zone]}], [self._local_term()] * 2])

    def _local_term(self) -> Item:
        names = [node["metadata"]["name"] for node in self._case.nodes]
        values = self._rng.again(self._rng.some(names, 1, 3))
        return {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": values}]}


def _name(item: Item) -> str:
    return str(item["metadata"]["name"])


def add_volumes(case: CaseBuilder) -> None:
    """Give pods volumes, some of which they share or name twice."""
    rng = case.rng
    volumes = Volumes(case)
    volumes.add_classes()
    counted_in_tree = rng.chance(0.25)
    volumes.add_limits(csi_nodes=0.4 if counted_in_tree else 0.85, in_tree=0.7 if counted_in_tree else 0.15)
    claims: dict[str, list[str]] = {}
    for pod in everyone(case):
        if pod is not case.pod and not rng.chance(0.4):
            continue
        pod["spec"]["volumes"] = _volumes_of(rng, pod, volumes, claims.setdefault(pod["metadata"]["namespace"], []))
    if counted_in_tree:
        # They count volumes of types that are not migrated on the node; the default profile has none of them.
        for plugin in rng.some(["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"], 2, 4):
            case.enable("multiPoint", plugin)
    if rng.chance(0.25):
        # Where a plugin is off, what the ones behind it say shows.
        case.disable("multiPoint", *rng.some(["VolumeBinding", "VolumeZone", "VolumeRestrictions"], 1, 2))


def _volumes_of(rng: Source, pod: Item, volumes: Volumes, claims: list[str]) -> list[Item]:
    found: list[Item] = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["bound", "bound", "bound", "shared", "inline", "inline", "ephemeral", "waiting"])
        if kind == "inline":
            found.append(volumes.inline())
            if rng.chance(0.15):
                found.append({**found[-1], "name": found[-1]["name"] + "-again"})
        elif kind == "ephemeral":
            found.append(volumes.ephemeral(pod))
        else:
            if kind == "shared" and claims:
                claim = rng.choice(claims)
            else:
                claim = volumes.waiting_claim(pod) if kind == "waiting" else volumes.bound_claim(pod)
                claims.append(claim)
            found += volumes.claimed(pod, claim, rng.weighted({1: 6, 2: 1, 3: 1}))
    return found
