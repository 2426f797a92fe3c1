"""Fields that came after v1.31, added to cases."""

from . import quantities
from .case import Gi, Mi
from .resources import IMAGES


def renew(case, family, rng):
    """Add the fields of later releases to an encoded case."""
    running = [o for o in case["objects"] if o["kind"] == "Pod" and o["spec"].get("nodeName")]
    nodes = [o for o in case["objects"] if o["kind"] == "Node"]
    sized = family in ("resources", "scoring", "nominated", "preemption")
    for pod in running + [case["pod"]]:
        if rng.chance(0.35 if sized else 0.03):
            pod["spec"]["resources"] = pod_level(rng)
    for pod in running:
        if rng.chance(0.35 if sized else 0.03):
            add_resize(rng, pod)
    if rng.chance(0.5 if family == "images" else 0.05):
        volumes = [{"name": f"image-{i}", "image": {"reference": rng.choice(IMAGES + ["web", "unknown:v1"])}}
                   for i in range(rng.randint(1, 2))]
        case["pod"]["spec"].setdefault("volumes", []).extend(volumes)
    if rng.chance(0.3 if family in ("nodeaffinity", "taints") else 0.04):
        add_declared_features(rng, case, nodes)
    for pod in running + [case["pod"]]:
        merge_label_keys(rng, pod)
    add_attachments(rng, case, nodes)


def pod_level(rng):
    """Return the resources of a pod as a whole."""
    wanted = {}
    if rng.chance(0.75):
        wanted["cpu"] = quantities.cpu(rng, rng.choice([0, 10, 250, 500, 1000, 1500, 3000]))
    if rng.chance(0.65):
        wanted["memory"] = quantities.memory(rng, rng.choice([0, Mi, 200 * Mi, 512 * Mi, Gi, 2 * Gi]))
    if rng.chance(0.1):
        wanted["hugepages-2Mi"] = quantities.memory(rng, rng.choice([2 * Mi, 64 * Mi]))
    result = {"requests": wanted}
    if rng.chance(0.2):
        result["limits"] = {"cpu": "4", "memory": "4Gi"}
    if rng.chance(0.1):
        del result["requests"]
    return result


def add_resize(rng, pod):
    """Give a running pod a status as a kubelet leaves it around a resize."""
    def amounts():
        return {"cpu": quantities.cpu(rng, rng.choice([0, 100, 500, 1000, 2000])),
                "memory": quantities.memory(rng, rng.choice([0, 64 * Mi, 512 * Mi, Gi]))}

    status, spec = pod["status"], pod["spec"]
    for key, containers in [("containerStatuses", spec["containers"]), ("initContainerStatuses", spec.get("initContainers", []))]:
        entries = []
        for container in containers:
            entry = {"name": container.get("name", "")}
            if rng.chance(0.7):
                entry["allocatedResources"] = amounts()
            if rng.chance(0.6):
                entry["resources"] = rng.choice([{"requests": amounts()}, {}])
            entries.append(entry)
        if entries and rng.chance(0.85):
            status[key] = entries
    if rng.chance(0.5):
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": rng.choice(["Deferred", "Infeasible"])}]
    if "resources" in spec and rng.chance(0.6):
        status["resources"] = {"requests": amounts()}
        status["allocatedResources"] = amounts()


def add_declared_features(rng, case, nodes):
    """Let the pod need what only some kubelets declare."""
    features = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Other"]
    for node in nodes:
        declared = sorted(rng.some(features, 0, 3))
        if declared:
            node["status"]["declaredFeatures"] = declared
    spec = case["pod"]["spec"]
    if rng.chance(0.6):
        spec["hostNetwork"], spec["hostUsers"] = rng.choice([(True, False), (True, False), (True, True), (False, False)])
    if rng.chance(0.6):
        spec["containers"][-1]["restartPolicyRules"] = [
            {"action": rng.choice(["RestartAllContainers", "Restart"]), "exitCodes": {"operator": "In", "values": [42]}}]


def merge_label_keys(rng, pod):
    """Merge matchLabelKeys into the selector of a spread constraint, as an API server does since v1.34."""
    labels = pod["metadata"].get("labels", {})
    for constraint in pod["spec"].get("topologySpreadConstraints", []):
        keys = [key for key in constraint.get("matchLabelKeys", []) if key in labels]
        if keys and "labelSelector" in constraint and rng.chance(0.7):
            selector = dict(constraint["labelSelector"])
            selector["matchExpressions"] = selector.get("matchExpressions", []) + [
                {"key": key, "operator": "In", "values": [labels[key]]} for key in keys]
            constraint["labelSelector"] = selector


def add_attachments(rng, case, nodes):
    """Attach volumes of pods that are gone, and let drivers insist on being installed."""
    volumes = [o for o in case["objects"] if o["kind"] == "PersistentVolume"]
    for number, volume in enumerate(volumes):
        if not rng.chance(0.2):
            continue
        source = volume["spec"].get("csi", {"driver": "ebs.csi.aws.com"})
        case["objects"].append({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": f"attachment-{number}"},
            "spec": {"attacher": source["driver"], "nodeName": rng.choice(nodes)["metadata"]["name"],
                     "source": {"persistentVolumeName": volume["metadata"]["name"]}},
            "status": {"attached": rng.chance(0.9)}})
    for driver in [o for o in case["objects"] if o["kind"] == "CSIDriver"]:
        if rng.chance(0.3):
            driver["spec"]["preventPodSchedulingIfMissing"] = rng.chance(0.9)
