"""Mount of the desk: the routes and links of all its pages, for the server."""

from starlette.routing import Route

from rookery.desk import (
    campaign_pages,
    dashboard,
    decision_pages,
    demonstration_pages,
    form_pages,
    labelling_tasks,
)
from rookery.desk.page_rendering import NavigationLink


def build_desk_pages() -> tuple[list[Route], list[NavigationLink]]:
    """Return the routes of the desk's pages, and their links in the head in the order shown."""
    routes = [
        *labelling_tasks.build_task_routes(),
        *demonstration_pages.build_demonstration_routes(),
        *labelling_tasks.build_stop_switch_routes(),
        *dashboard.build_dashboard_routes(),
        *form_pages.build_form_routes(),
        *campaign_pages.build_campaign_routes(),
        *decision_pages.build_decision_routes(),
    ]
    links = [
        *labelling_tasks.list_task_links(),
        *demonstration_pages.list_demonstration_links(),
        *labelling_tasks.list_stop_switch_links(),
        *decision_pages.list_decision_links(),
        *dashboard.list_dashboard_links(),
    ]
    return routes, links
