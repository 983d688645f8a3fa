"""Quotes that answer one question in two ways, and those that speak of two things."""

import pytest

from rookery.quotes.differing_answers import differ_in_answer, list_dates, tells_change

DIFFERENT = {
    "How much is the annual fee for adults?": (
        ("The annual fee for adults is 45 euros. Children pay nothing.", "Minutes of March"),
        ("By 31 votes to 4 the annual fee for adults will be €60 from January on.", "Minutes"),
    ),
    "When does the lease of the workshop end?": (
        ("The lease begins on 1 June 2022 and ends on 31 May 2027.", "Lease of the workshop"),
        ("The parties agree: the lease of the workshop ends on 2029-11-30.", "Amendment"),
    ),
    "When is the summer party?": (
        ("The summer party is on 12 July. Petra orders the benches.", "Minutes of May"),
        ("As the hall is taken, the summer party is moved from July 12 to July 19.", "June"),
    ),
    "What is the notice period of the service contract?": (
        ("The notice period of the service contract is three months.", "Contract"),
        ("The notice period of the service contract is six weeks.", "Contract, new version"),
    ),
    "At what time does the choir rehearse on Tuesdays?": (
        ("The choir rehearses on Tuesdays at 19:30 in the school.", "Choir"),
        ("New: on Tuesdays the choir rehearses at 8 pm.", "Newsletter"),
    ),
    "How much may the summer course spend on rooms?": (
        ("The board allows 8,400 for the summer course, of that 2,200 for rooms.", "February"),
        ("The summer course, set at 8,400, is lowered to 7,100: 1,500 for the rooms.", "April"),
    ),
    "Who chairs the board?": (
        ("The board has five members. It is chaired by Helga Storm.", "Statutes"),
        ("Top 1: Omar Haddad chairs the board from today on.", "Minutes"),
    ),
    "Are dogs allowed in the clubhouse?": (
        ("Dogs are allowed in the clubhouse if they are on a leash.", "House rules"),
        ("From April dogs are no longer allowed in the clubhouse.", "Mail"),
    ),
    "Is overtime paid?": (
        ("Overtime is paid with a supplement of 25 percent.", "Handbook"),
        ("Overtime is not paid. It is taken as free time.", "Handbook, third edition"),
    ),
    "How long is the default timeout of a request?": (
        ("The default timeout is 10 seconds. Set `timeout` to change it.", "Manual > Requests"),
        ("- The default timeout of a request is now 30 seconds.", "Changelog"),
    ),
}
ALIKE = {
    "How much does it cost to rent a room?": (
        ("To rent the great hall costs 300 euros a day.", "Hall"),
        ("To rent the kitchen costs 80 euros a day.", "Kitchen"),
    ),
    "When was the club of rowers founded?": (
        ("The club of rowers was founded on 14 February 1988.", "History"),
        ("The club of rowers was founded on 1988-02-14 in Lund.", "Register"),
    ),
    "When is the general meeting of members?": (
        ("The general meeting of members is on 14 March 2025.", "Invitation"),
        ("The general meeting of members is on Friday, 14 March, at 19:30.", "Poster"),
    ),
    "How much is the fee for the yearly course?": (
        ("The fee for the painting course is 120 euros, yearly.", "Painting"),
        ("The fee for the pottery course is 150 euros, yearly.", "Pottery"),
    ),
    "How many paying members did the club have?": (
        ("In 2022 the club had 212 paying members.", "Report"),
        ("In 2024 the club had 240 paying members.", "Report"),
    ),
    "How many open connections can the pool have?": (
        ("The pool has 5 open connections by default.", "Pool"),
        ("The pool can have 100 open connections at most.", "Pool"),
    ),
    "When does the project end?": (
        ("The project ends on 31 March 2026.", "Project Otter"),
        ("The project ends on 30 June 2027.", "Project Heron"),
    ),
    "What is the total of the paid invoice?": (
        ("The total of the paid invoice is 84.20 euros.", "Invoice 17"),
        ("The total of the paid invoice is 410 euros.", "Invoice 18"),
    ),
    "How long is the warranty of a pump?": (
        ("The warranty of a pump is 12 months.", "Pumps"),
        ("The warranty of a pump is 365 days from delivery.", "Pumps"),
    ),
    "Can I delete a stored record?": (
        ("You can delete a stored record with the key Del.", "Records"),
        ("You cannot delete a stored record that is locked.", "Records"),
    ),
    "Who wrote the report on owls?": (
        ("The report on owls was written by Ana Silva.", "Owls"),
        ("The report on owls was written with Jon Fox.", "Owls"),
    ),
    "Why was the old bridge closed?": (
        ("The old bridge was closed because of 2 cracks.", "News"),
        ("The old bridge was closed due to cracks.", "News"),
    ),
}


@pytest.mark.parametrize("question", DIFFERENT)
def test_another_date_number_holder_or_a_denial_differs(question: str) -> None:
    first, second = DIFFERENT[question]
    assert differ_in_answer(question, first, second)
    assert differ_in_answer(question, second, first)
    assert not differ_in_answer(question, first, first)


@pytest.mark.parametrize("question", ALIKE)
def test_other_forms_other_cases_and_details_do_not_differ(question: str) -> None:
    first, second = ALIKE[question]
    assert not differ_in_answer(question, first, second)
    assert not differ_in_answer(question, second, first)


def test_dates_are_read_with_what_they_leave_out() -> None:
    text = "minutes 2025-10 of May 3rd, 14 March 2024 and 1988, not 2025-13"
    assert list(list_dates(text)) == [
        (2025, 10, None),
        (None, 5, 3),
        (2024, 3, 14),
        (1988, None, None),
        (2025, None, None),
    ]


def test_a_change_is_told_of_the_same_matter() -> None:
    lease = "The rent is 650 pounds a year, payable in one sum on 25 March."
    assert tells_change("3.1 is amended: the rent is 820 pounds a year, in two halves.", lease)
    assert not tells_change("The rent is 820 pounds a year, in two halves.", lease)
    gate = "The gate is opened with a code."
    assert not tells_change("The code of the gate changes each quarter.", gate)
    assert tells_change("The code of the gate changes on 1 May.", gate)
    assert not tells_change("Parking is no longer possible behind the barn.", lease)
