from extender_service.kube.connection.sent_requests import BOUNDS_SECONDS, SentRequests


def test_clients_of_one_host_share_its_counts() -> None:
    sent = SentRequests()
    sent.to("a:443").answers["GET", 200] += 1
    sent.to("b:443").answers["GET", 200] += 1
    sent.to("a:443").answers["GET", 200] += 1
    assert {host: requests.answers["GET", 200] for host, requests in sent.hosts.items()} == {"a:443": 2, "b:443": 1}


def test_a_duration_is_in_the_bucket_of_the_first_bound_that_is_not_less() -> None:
    requests = SentRequests().to("a:443")
    for seconds in (*BOUNDS_SECONDS, 61.0):
        requests.took("GET", seconds)
    durations = requests.durations["GET"]
    assert durations.counts == [1] * (len(BOUNDS_SECONDS) + 1)
    assert durations.total_seconds == sum(BOUNDS_SECONDS) + 61.0
