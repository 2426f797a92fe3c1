from extender_service.cluster.amounts.dimensions import CPU_MILLI, FIRST_SCALAR, MEMORY_BYTES, POD_COUNT, Dimensions


def test_cpu_memory_and_pods_always_have_their_dimension() -> None:
    dimensions = Dimensions()
    found = [dimensions.find("cpu"), dimensions.find("memory"), dimensions.find("pods")]
    assert found == [CPU_MILLI, MEMORY_BYTES, POD_COUNT]
    assert dimensions.hold("cpu") == CPU_MILLI
    dimensions.release("cpu")
    assert dimensions.find("cpu") == CPU_MILLI


def test_an_extended_resource_has_a_dimension_while_a_node_offers_it() -> None:
    dimensions = Dimensions()
    assert dimensions.find("nvidia.com/gpu") == -1
    dimensions.hold("nvidia.com/gpu")
    assert dimensions.hold("nvidia.com/gpu") == dimensions.find("nvidia.com/gpu") == FIRST_SCALAR
    dimensions.release("nvidia.com/gpu")
    assert dimensions.find("nvidia.com/gpu") == FIRST_SCALAR
    dimensions.release("nvidia.com/gpu")
    assert dimensions.find("nvidia.com/gpu") == -1


def test_dimensions_of_vanished_resources_are_reused() -> None:
    dimensions = Dimensions()
    dimensions.hold("nvidia.com/gpu")
    dimensions.release("nvidia.com/gpu")
    assert dimensions.hold("example.com/fpga") == FIRST_SCALAR
    assert dimensions.size == FIRST_SCALAR + 1


def test_a_dimension_is_used_while_it_is_that_of_a_resource() -> None:
    dimensions = Dimensions()
    gpu, nic = dimensions.hold("nvidia.com/gpu"), dimensions.hold("example.com/nic")
    dimensions.release("nvidia.com/gpu")
    used = [number for number in range(-2, nic + 2) if dimensions.is_used(number)]
    assert used == [*range(gpu), nic]


def test_the_capacity_for_dimensions_grows_seldom_and_is_never_twice_as_much_as_is_needed() -> None:
    dimensions = Dimensions()
    capacities = [dimensions.capacity]
    for number in range(1000):
        dimensions.hold(f"example.com/device-{number}")
        assert dimensions.size <= dimensions.capacity < 2 * dimensions.size
        capacities.append(dimensions.capacity)
    assert len(set(capacities)) == 8


def test_a_copy_changes_on_its_own() -> None:
    dimensions = Dimensions()
    dimensions.hold("nvidia.com/gpu")
    twin = dimensions.copy()
    twin.release("nvidia.com/gpu")
    twin.hold("example.com/fpga")
    assert dimensions.find("nvidia.com/gpu") == FIRST_SCALAR
    assert dimensions.find("example.com/fpga") == -1
    # Pods' amounts are by number: none is given to another resource.
    assert (twin.find("nvidia.com/gpu"), twin.find("example.com/fpga")) == (FIRST_SCALAR, FIRST_SCALAR + 1)


def test_dimensions_are_named_with_their_units() -> None:
    dimensions = Dimensions()
    dimensions.hold("nvidia.com/gpu")
    dimensions.hold("example.com/fpga")
    dimensions.release("nvidia.com/gpu")
    names = dimensions.names()
    assert (names[CPU_MILLI], names[MEMORY_BYTES], names[POD_COUNT]) == ("cpu_milli", "memory_bytes", "pods")
    assert names[FIRST_SCALAR:] == ["", "example.com/fpga"]


def test_resources_that_get_or_lose_their_dimension_are_told_once() -> None:
    dimensions = Dimensions()
    for resource in ("nvidia.com/gpu", "cpu", "nvidia.com/gpu"):
        dimensions.hold(resource)
    assert dimensions.take_changes() == [("nvidia.com/gpu", FIRST_SCALAR)]
    for resource in ("nvidia.com/gpu", "cpu"):
        dimensions.release(resource)
    assert dimensions.take_changes() == []
    dimensions.release("nvidia.com/gpu")
    assert dimensions.take_changes() == [("nvidia.com/gpu", FIRST_SCALAR)]
