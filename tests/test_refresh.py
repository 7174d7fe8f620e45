"""A table whose file has changed: what REFRESH TABLE makes of answers, operator by operator.

Each is a script whose files stand in it as comments, because a file cannot change in the scripts
of the folder.
"""

from pathlib import Path

import pytest

from place.script.blocks import parse_script
from place.script.command import opener
from place.script.runner import Batching
from tests.harness.search import ScriptWithFiles

CARS = """
statement ok
CREATE STREAM Cars (ID BIGINT KEY, x DOUBLE, y DOUBLE)
"""
OWNERS = """
# file owners.csv
# | car,owner
# | 1,Ada
# | 2,Bob
# | 2,Bob
# | ,Cem
statement ok
CREATE TABLE Owners (car BIGINT, owner STRING) FROM 'owners.csv'
"""

SCRIPTS = {
    "a join takes rows back and adds others": CARS
    + OWNERS
    + """
statement ok
REGISTER QUERY owned AS SELECT C.ID, O.owner FROM Cars C, Owners O
  WHERE C.ID = O.car INSIDE (0, 0, 9, 9)

at 0s
Cars (1, 1, 1)
Cars (2, 2, 2)
Cars (3, 3, 3)
Cars (4, 40, 3)
----
+ owned (1, 'Ada')
+ owned (2, 'Bob')
+ owned (2, 'Bob')

# One of two equal rows goes; 3 gets an owner, and so does 4, which is elsewhere.
# file owners.csv
# | car,owner
# | 4,Eve
# | 3,Dee
# | 2,Bob
statement ok
REFRESH TABLE Owners
----
- owned (1, 'Ada')
- owned (2, 'Bob')
+ owned (3, 'Dee')

at 1s
Cars (4, 4, 3)
Cars (1, 1, 2)
----
+ owned (4, 'Eve')

# file owners.csv
# | car,owner
statement ok
REFRESH TABLE Owners
----
- owned (2, 'Bob')
- owned (3, 'Dee')
- owned (4, 'Eve')

recover

# file owners.csv
# | car,owner
# | 1,Ada
statement ok
REFRESH TABLE Owners
----
+ owned (1, 'Ada')
""",
    "aggregates and DISTINCT settle what changed": CARS
    + OWNERS
    + """
statement ok
REGISTER QUERY fleets AS SELECT O.owner, COUNT(*) FROM Cars C, Owners O
  WHERE C.ID = O.car GROUP BY O.owner

statement ok
REGISTER QUERY many AS SELECT COUNT(*), COUNT(DISTINCT O.owner), MAX(O.owner) FROM Cars C, Owners O
  WHERE C.ID = O.car

statement ok
REGISTER QUERY names AS SELECT DISTINCT O.owner FROM Cars C, Owners O WHERE C.ID = O.car

statement ok
REGISTER QUERY crowd AS SELECT O.owner FROM Cars C, Owners O
  WHERE C.ID = O.car GROUP BY O.owner HAVING COUNT(*) > 1

at 0s
Cars (1, 1, 1)
Cars (2, 2, 2)
----
+ fleets ('Ada', 1)
+ fleets ('Bob', 2)
- many (0, 0, NULL)
+ many (3, 2, 'Bob')
+ names ('Ada')
+ names ('Bob')
+ crowd ('Bob')

recover

# The same rows in another order are the same rows.
# file owners.csv
# | car,owner
# | ,Cem
# | 2,Bob
# | 1,Ada
# | 2,Bob
statement ok
REFRESH TABLE Owners
----

# file owners.csv
# | car,owner
# | 2,Ada
# | 1,Ada
# | 1,Bob
statement ok
REFRESH TABLE Owners
----
- fleets ('Ada', 1)
+ fleets ('Ada', 2)
- fleets ('Bob', 2)
+ fleets ('Bob', 1)
- crowd ('Bob')
+ crowd ('Ada')

# file owners.csv
# | car,owner
# | 7,Ada
statement ok
REFRESH TABLE Owners
----
- fleets ('Ada', 2)
- fleets ('Bob', 1)
- many (3, 2, 'Bob')
+ many (0, 0, NULL)
- names ('Ada')
- names ('Bob')
- crowd ('Ada')
""",
    "a window has the tables as they are now": CARS
    + OWNERS
    + """
statement ok
REGISTER QUERY lately AS SELECT C.x, O.owner FROM Cars C, Owners O
  WHERE C.ID = O.car WINDOW 10 SECONDS

statement ok
REGISTER QUERY last AS SELECT C.x, O.owner FROM Cars C, Owners O WHERE C.ID = O.car WINDOW 2 ROWS

statement ok
REGISTER QUERY steps AS SELECT cur.x, O.owner FROM Cars cur, Cars prev, Owners O
  WHERE cur.ID = prev.ID AND cur.ID = O.car WINDOW PREVIOUS

at 0s
Cars (1, 10, 0)
Cars (3, 30, 0)
----
+ lately (10, 'Ada')
+ last (10, 'Ada')

at 4s
Cars (1, 11, 0)
----
+ lately (11, 'Ada')
+ last (11, 'Ada')
+ steps (11, 'Ada')

at 5s
Cars (3, 31, 0)
----

# Readings of car 3 qualify from now on, those of before among them: the last two are 11 and 31.
# file owners.csv
# | car,owner
# | 1,Eve
# | 3,Dee
statement ok
REFRESH TABLE Owners
----
- lately (10, 'Ada')
- lately (11, 'Ada')
+ lately (10, 'Eve')
+ lately (11, 'Eve')
+ lately (30, 'Dee')
+ lately (31, 'Dee')
- last (10, 'Ada')
- last (11, 'Ada')
+ last (11, 'Eve')
+ last (31, 'Dee')
- steps (11, 'Ada')
+ steps (11, 'Eve')
+ steps (31, 'Dee')

at 10s
----
- lately (10, 'Eve')
- lately (30, 'Dee')

# What has expired does not come back, but what was pushed out of the last rows does.
# file owners.csv
# | car,owner
# | 1,Eve
statement ok
REFRESH TABLE Owners
----
- lately (31, 'Dee')
- last (31, 'Dee')
+ last (10, 'Eve')
- steps (31, 'Dee')
""",
    "kNN: who competes, and stationary objects": CARS
    + OWNERS
    + """
# file stations.csv
# | name,x,y
# | Oak,0,0
# | Elm,5,0
# | Fir,9,0
statement ok
CREATE TABLE Stations (name STRING, x DOUBLE, y DOUBLE) FROM 'stations.csv'

statement ok
REGISTER QUERY near AS SELECT C.ID, O.owner FROM Cars C, Owners O WHERE C.ID = O.car kNN (1, 0, 0)

statement ok
REGISTER QUERY fuel AS SELECT name FROM Stations kNN ('M', 2, 1 OF Cars)

at 0s
Cars (3, 1, 0)
Cars (1, 2, 0)
Cars (2, 3, 0)
----
+ near (1, 'Ada')
+ fuel ('Oak')
+ fuel ('Elm')

# Car 3 has an owner now, and is nearer.
# file owners.csv
# | car,owner
# | 2,Bob
# | 3,Dee
# | 3,Eve
statement ok
REFRESH TABLE Owners
----
- near (1, 'Ada')
+ near (3, 'Dee')
+ near (3, 'Eve')

# Oak closes, Ash opens, and Fir is elsewhere.
# file stations.csv
# | name,x,y
# | Fir,3,0
# | Elm,5,0
# | Ash,7,0
statement ok
REFRESH TABLE Stations
----
- fuel ('Oak')
+ fuel ('Fir')

at 1s
Cars (1, 9, 0)
----
- fuel ('Fir')
+ fuel ('Ash')
""",
    "fences move with their file": CARS
    + """
# file fences.csv
# | id,x,y,r
# | 1,0,0,5
# | 2,20,0,5
statement ok
CREATE TABLE Fences (id BIGINT, x DOUBLE, y DOUBLE, r DOUBLE) FROM 'fences.csv'

statement ok
REGISTER QUERY fences AS SELECT Q.id, O.ID FROM Fences Q, Cars O WHERE O INSIDE Q

statement ok
REGISTER QUERY counts AS SELECT Q.id, COUNT(*) FROM Fences Q, Cars O WHERE O INSIDE Q GROUP BY Q.id

statement ok
REGISTER QUERY passed AS SELECT Q.id, O.ID, O.x FROM Fences Q, Cars O
  WHERE O INSIDE Q WINDOW 10 SECONDS

at 0s
Cars (1, 1, 0)
Cars (2, 21, 0)
----
+ fences (1, 1)
+ fences (2, 2)
+ counts (1, 1)
+ counts (2, 1)
+ passed (1, 1, 1)
+ passed (2, 2, 21)

at 5s
Cars (1, 40, 0)
----
- fences (1, 1)
- counts (1, 1)

# Fence 1 goes to where car 1 is now. The window's readings meet the fences that there are now.
# file fences.csv
# | id,x,y,r
# | 1,40,0,5
# | 2,20,0,5
# | 3,0,0,30
statement ok
REFRESH TABLE Fences
----
+ fences (1, 1)
+ fences (3, 2)
+ counts (1, 1)
+ counts (3, 1)
- passed (1, 1, 1)
+ passed (1, 1, 40)
+ passed (3, 1, 1)
+ passed (3, 2, 21)

recover

# A row that is no region is refused, and all stays as it is.
# file fences.csv
# | id,x,y,r
# | 1,0,0,-5
statement error row 1 of table "Fences" is not a region
REFRESH TABLE Fences

at 10s
----
- passed (2, 2, 21)
- passed (3, 1, 1)
- passed (3, 2, 21)

answer fences
----
(1, 1)
(2, 2)
(3, 2)
""",
    "tables alone, one of them twice": """
# file towns.csv
# | name,x,y,twin
# | Bath,0,0,Aix
# | Aix,9,0,Bath
# | Oz,1,1,
statement ok
CREATE TABLE Towns (name STRING, x DOUBLE, y DOUBLE, twin STRING) FROM 'towns.csv'

statement ok
REGISTER QUERY twins AS SELECT a.name, b.name FROM Towns a, Towns b
  WHERE a.twin = b.name AND a.name < b.name
----
+ twins ('Aix', 'Bath')

statement ok
REGISTER QUERY extent AS SELECT MIN(x), MAX(x), COUNT(twin) FROM Towns
----
+ extent (0, 9, 2)

# file towns.csv
# | name,x,y,twin
# | Bath,0,0,Oz
# | Aix,5,0,Bath
# | Oz,1,1,Bath
statement ok
REFRESH TABLE Towns
----
+ twins ('Bath', 'Oz')
- extent (0, 9, 2)
+ extent (0, 5, 3)
""",
    "arrivals are told, and nothing is taken back": CARS
    + OWNERS
    + """
statement ok
REGISTER QUERY owned EMIT ARRIVALS AS SELECT C.ID, O.owner FROM Cars C, Owners O
  WHERE C.ID = O.car INSIDE (0, 0, 9, 9)

statement ok
REGISTER QUERY many EMIT ARRIVALS AS SELECT O.owner, COUNT(*) FROM Cars C, Owners O
  WHERE C.ID = O.car INSIDE (0, 0, 9, 9) GROUP BY O.owner

at 0s
Cars (1, 1, 1)
Cars (2, 2, 2)
Cars (3, 3, 3)
----
+ owned (1, 'Ada')
+ owned (2, 'Bob')
+ owned (2, 'Bob')
+ many ('Ada', 1)
+ many ('Bob', 2)

# file owners.csv
# | car,owner
# | 3,Dee
# | 2,Bob
statement ok
REFRESH TABLE Owners
----
+ owned (3, 'Dee')
+ many ('Bob', 1)
+ many ('Dee', 1)

answer owned
----
(2, 'Bob')
(3, 'Dee')

# file owners.csv
# | car,owner
statement ok
REFRESH TABLE Owners
----

# file owners.csv
# | car,owner
# | 2,Bob
statement ok
REFRESH TABLE Owners
----
+ owned (2, 'Bob')
+ many ('Bob', 1)
""",
    "tables alone, when the clock has moved on": CARS
    + """
# file stations.csv
# | name,x,y
# | Elm,5,0
# | Fir,9,0
statement ok
CREATE TABLE Stations (name STRING, x DOUBLE, y DOUBLE) FROM 'stations.csv'

statement ok
REGISTER QUERY fixed AS SELECT name FROM Stations kNN (1, 8, 0)
----
+ fixed ('Fir')

at 1s
Cars (1, 0, 0)
----

# file stations.csv
# | name,x,y
# | Elm,5,0
# | Ash,7,0
statement ok
REFRESH TABLE Stations
----
- fixed ('Fir')
+ fixed ('Ash')

at 2s
Cars (1, 1, 0)
----

statement ok
DROP QUERY fixed
----
- fixed ('Ash')
""",
}


@pytest.mark.parametrize(
    ("runtime", "cells", "batching"),
    [
        ("reference", "1x1", "each"),
        ("local", "1x1", "one"),
        ("local", "2x2", "each"),
        ("local", "1x3", "random:1"),
    ],
)
@pytest.mark.parametrize("name", SCRIPTS)
def test_refresh(name: str, runtime: str, cells: str, batching: str, tmp_path: Path) -> None:
    script = parse_script(SCRIPTS[name], tmp_path / "refresh.cq")
    ScriptWithFiles(script, opener(runtime, cells), Batching.parse(batching)).run()
