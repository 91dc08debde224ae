"""A seed is a plan, and plans cover everything."""

from __future__ import annotations

from chaos.faults import FAULTS
from chaos.plan import Plan
from chaos.site import Place
from chaos.workloads import WORKLOADS


def test_a_seed_gives_the_same_plan_again() -> None:
    assert Plan.random(7) == Plan.random(7)
    assert Plan.random(7) != Plan.random(8)
    assert Plan.random(7).arguments == "--cell 7"


def test_random_plans_cover_all_workloads_faults_and_places() -> None:
    plans = [Plan.random(seed) for seed in range(100)]
    assert {name for plan in plans for name in plan.workloads} == set(WORKLOADS)
    assert {step.fault for plan in plans for step in plan.steps} == set(FAULTS)
    assert {plan.place for plan in plans} == set(Place)
    for plan in plans:
        assert any(WORKLOADS[name].writes for name in plan.workloads)
        assert all(plan.place in FAULTS[step.fault].places for step in plan.steps)


def test_a_plan_of_everything_has_each_workload_and_each_fault_of_its_place_once() -> None:
    for place in Place:
        plan = Plan.everything(1, place)
        assert plan.workloads == tuple(WORKLOADS)
        faults = [step.fault for step in plan.steps]
        assert sorted(faults) == sorted(name for name, fault in FAULTS.items() if place in fault.places)


def test_a_server_may_forget_when_it_is_killed_and_not_when_a_connection_is_cut() -> None:
    plans = [Plan.random(seed) for seed in range(100)]
    for plan in plans:
        harmless = {step.fault for step in plan.steps} <= {
            "cut",
            "refuse",
            "half-open",
            "slow",
            "delete-ordered",
        }
        assert plan.forgetful is not harmless


def test_only_a_cluster_whose_servers_fail_may_take_back_a_deletion() -> None:
    for plan in [Plan.random(seed) for seed in range(100)]:
        failing = {step.fault for step in plan.steps} & {"kill", "pause", "stop-followers", "lame-duck"}
        assert plan.undecided is (plan.place is Place.CLUSTER and bool(failing))
