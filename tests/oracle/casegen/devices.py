"""Dynamic resource allocation."""

from .case import ZONE, ZONES
from .families import new_case

DRIVER, EXTENDED = "gpu.example.com", "example.com/gpu"
MODELS = ["small", "large"]


def devices(name, rng):
    """Devices in slices, claims on them, and extended resources that stand for claims."""
    case = new_case(name, rng)
    add = case.add

    def device_class(name, expression=None, **fields):
        selectors = [{"cel": {"expression": expression}}] if expression else None
        add("resource.k8s.io/v1", "DeviceClass", name, spec={"selectors": selectors, **fields})

    extended = EXTENDED if rng.chance(0.6) else None
    device_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName=extended)
    device_class("large", f'device.attributes["{DRIVER}"].model == "large"')
    device_class("any")
    published = add_slices(case)
    taken = add_allocated(case, published)
    spec = case.pod["spec"]
    if rng.chance(0.75):
        spec["resourceClaims"] = [claim(case, index, taken) for index in range(rng.weighted({1: 6, 2: 2}))]
    if rng.chance(0.45):
        requests = {rng.choice([EXTENDED, EXTENDED, "deviceclass.resource.kubernetes.io/large"]): str(rng.choice([0, 1, 1, 2, 3]))}
        spec["containers"][0]["resources"] = {"requests": requests, "limits": requests}
        for node in case.nodes:
            if rng.chance(0.3):
                node["status"]["allocatable"][EXTENDED] = str(rng.choice([0, 1, 4]))
    return case


def add_slices(case):
    """Publish the devices of the nodes; return (node, pool, device) of each."""
    rng, published = case.rng, []

    def publish(pool, where, node=None):
        found = []
        for index in range(rng.randint(0, 4)):
            device = {"name": f"d{index}", "capacity": {"memory": {"value": rng.choice(["8Gi", "16Gi", "80Gi"])}}}
            if rng.chance(0.95):
                device["attributes"] = {"model": {"string": rng.choice(MODELS)}, "index": {"int": index},
                                        "numa": {"int": rng.randint(0, 1)}}
            if rng.chance(0.15):
                device["taints"] = [{"key": "broken", "value": "yes", "effect": rng.choice(["NoSchedule", "NoExecute", "None"])}]
            found.append(device)
            published.append((node, pool, device["name"]))
        case.add("resource.k8s.io/v1", "ResourceSlice", f"slice-{pool}", spec={
            "driver": DRIVER, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1 if rng.chance(0.95) else 2},
            "devices": found, **where})

    for node in case.nodes:
        if rng.chance(0.8):
            publish(node["metadata"]["name"], {"nodeName": node["metadata"]["name"]}, node)
    if rng.chance(0.2):
        publish("shared", {"allNodes": True})
    if rng.chance(0.2):
        publish("zonal", {"nodeSelector": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": rng.some(ZONES, 1, 2)}]}]}})
    if published and rng.chance(0.2):
        _, pool, device = rng.choice(published)
        case.add("resource.k8s.io/v1", "DeviceTaintRule", "rule", spec={
            "deviceSelector": {"driver": DRIVER, "pool": pool, "device": device if rng.chance(0.6) else None},
            "taint": {"key": "broken", "value": "yes", "effect": "NoSchedule"}})
    return published


def add_allocated(case, published):
    """Let running pods own some of the devices; return the names of their claims."""
    rng, names = case.rng, []
    for number, (node, pool, device) in enumerate(rng.some(published, 0, 4)):
        users = [p for p in case.pods if node and p["spec"].get("nodeName") == node["metadata"]["name"]]
        user = rng.choice(users) if users else None
        namespace = case.pod["metadata"]["namespace"] if rng.chance(0.7) else "default"
        reserved = None
        if user is not None and rng.chance(0.8):
            reserved = [{"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}]
        selector = {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}]}]} if node else None
        case.add("resource.k8s.io/v1", "ResourceClaim", f"taken-{number}", namespace=namespace, uid=f"uid-taken-{number}",
                 spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}},
                 status={"allocation": {"nodeSelector": selector, "devices": {"results": [
                     {"request": "r", "driver": DRIVER, "pool": pool, "device": device}]}}, "reservedFor": reserved})
        names.append(f"taken-{number}")
    return names


def device_request(rng, name, sub=False):
    wanted = {"deviceClassName": rng.choice(["gpu", "gpu", "large", "any", "no-such-class" if rng.chance(0.1) else "gpu"])}
    wanted["allocationMode"] = "All" if rng.chance(0.12) else "ExactCount"
    if wanted["allocationMode"] == "ExactCount":
        wanted["count"] = rng.choice([1, 1, 1, 2, 3])
    expression = rng.choice([
        None, None, None, f'device.attributes["{DRIVER}"].model == "{rng.choice(MODELS)}"',
        f'device.attributes["{DRIVER}"].index > 0',
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("16Gi")) >= 0'])
    if expression:
        wanted["selectors"] = [{"cel": {"expression": expression}}]
    if rng.chance(0.2):
        wanted["tolerations"] = [{"key": "broken", "operator": "Exists", "effect": rng.choice(["NoSchedule", None])}]
    return {"name": name, **wanted} if sub else {"name": name, "exactly": wanted}


def claim(case, index, taken):
    """Return an entry of spec.resourceClaims, with the claim that it names."""
    rng, name = case.rng, f"claim-{index}"
    kind = rng.weighted({"own": 12, "taken": 3 if taken else 0, "missing": 1, "deleted": 1, "template": 2})
    if kind == "taken":
        return {"name": name, "resourceClaimName": rng.choice(taken)}
    if kind == "missing":
        return {"name": name, "resourceClaimName": "no-such-claim"}
    requests = [device_request(rng, f"r{i}") for i in range(rng.weighted({1: 5, 2: 2}))]
    if rng.chance(0.25):
        requests[0] = {"name": "r0", "firstAvailable": [device_request(rng, f"s{i}", sub=True) for i in range(rng.randint(1, 3))]}
    spec = {"devices": {"requests": requests}}
    if rng.chance(0.2):
        spec["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/{rng.choice(['numa', 'model'])}"}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": case.pod["metadata"]["name"], "uid": case.pod["metadata"]["uid"], "controller": True}
    made = case.add("resource.k8s.io/v1", "ResourceClaim", name, namespace=case.pod["metadata"]["namespace"], uid=f"uid-{name}", spec=spec)
    if kind == "deleted":
        made["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    if kind != "template":
        return {"name": name, "resourceClaimName": name}
    if rng.chance(0.9):
        made["metadata"]["ownerReferences"] = [owner]
    if rng.chance(0.9):
        case.pod["status"]["resourceClaimStatuses"] = [{"name": name, "resourceClaimName": name}]
    return {"name": name, "resourceClaimTemplateName": "template"}
