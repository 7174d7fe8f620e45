-- The demonstration: a city, its traffic, queries of every kind, and two triggers.
CREATE STREAM Vehicles (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING, speed DOUBLE)
  FROM GENERATOR (objects = {objects}, city = 'default', seed = {seed}, rate = {rate})
  WITH (bounds = '0 0 1 1');
CREATE STREAM Police (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, speed DOUBLE)
  FROM GENERATOR (objects = 40, city = 'default', seed = {seed}, rate = {rate}, roam = TRUE)
  WITH (bounds = '0 0 1 1');
CREATE TABLE Stations (name STRING, x DOUBLE, y DOUBLE) AS VALUES
  ('North', 0.52, 0.83), ('Harbour', 0.71, 0.36), ('Airport', 0.12, 0.24), ('Centre', 0.49, 0.55),
  ('West', 0.21, 0.57), ('Campus', 0.66, 0.72), ('South', 0.43, 0.14), ('East', 0.87, 0.51);
CREATE TABLE Fleet (id BIGINT, owner STRING) AS VALUES
  (1, 'Ada'), (2, 'Ben'), (3, 'Cem'), (5, 'Dora'), (8, 'Emil'), (13, 'Fay'), (21, 'Gus'),
  (34, 'Hana'), (55, 'Ivo'), (89, 'Jun'), (144, 'Kim'), (233, 'Leo'), (377, 'Mia'), (610, 'Noa');
CREATE TABLE Fences (ID STRING, x DOUBLE, y DOUBLE, r DOUBLE) AS VALUES
  ('bridge', 0.5, 0.45, 0.01), ('market', 0.47, 0.52, 0.015), ('stadium', 0.62, 0.6, 0.02),
  ('hospital', 0.38, 0.62, 0.01), ('school', 0.55, 0.38, 0.008), ('mall', 0.3, 0.4, 0.02);
CREATE REGION Downtown AS POLYGON ((0.44 0.42, 0.56 0.42, 0.6 0.5, 0.56 0.58, 0.44 0.58, 0.4 0.5));

-- A stationary range, with a condition.
REGISTER QUERY trucks_downtown AS SELECT id, speed FROM Vehicles WHERE type = 'truck' INSIDE Downtown;
-- A circle.
REGISTER QUERY speeding AS SELECT id, type, speed FROM Vehicles WHERE speed > 78 INSIDE (0.5, 0.5, 0.3);
-- Moving ranges: a square and a circle around police cars of another stream.
REGISTER QUERY around_police_3 AS SELECT id, type FROM Vehicles INSIDE ('M', 3 OF Police, 0.05, 0.05);
REGISTER QUERY buses_near_5 AS SELECT id FROM Vehicles WHERE type = 'bus' INSIDE ('M', 5 OF Police, 0.06);
-- The nearest: to a place, to a car that drives, and stations that stand still to a car that drives.
REGISTER QUERY police_nearest AS SELECT id FROM Police kNN (3, 0.5, 0.5);
REGISTER QUERY cars_nearest_7 AS SELECT id, speed FROM Vehicles WHERE type = 'car' kNN ('M', 5, 7 OF Police);
REGISTER QUERY stations_for_9 AS SELECT name FROM Stations kNN ('M', 2, 9 OF Police);
-- Aggregates, of all and of a window of time.
REGISTER QUERY per_type AS SELECT type, COUNT(id) AS vehicles, AVG(speed) AS km_h FROM Vehicles GROUP BY type;
REGISTER QUERY bridge_30s AS SELECT COUNT(DISTINCT id) AS vehicles FROM Vehicles INSIDE (0.5, 0.45, 0.01) WINDOW 30 SECONDS;
-- Two readings of the same object: who brakes hard.
REGISTER QUERY braking AS SELECT cur.id, prev.speed - cur.speed AS lost FROM Vehicles cur, Vehicles prev
  WHERE cur.id = prev.id AND prev.speed - cur.speed > 25 WINDOW PREVIOUS;
-- A join with a table, DISTINCT, and a whole table of queries in one statement.
REGISTER QUERY fleet_out AS SELECT V.id, F.owner FROM Vehicles V, Fleet F WHERE V.id = F.id AND V.speed > 30;
REGISTER QUERY kinds_on_bridge AS SELECT DISTINCT type FROM Vehicles INSIDE (0.5, 0.45, 0.01);
REGISTER QUERY fences AS SELECT Q.ID, O.id FROM Fences Q, Vehicles O WHERE O INSIDE Q;
REGISTER QUERY crowded AS SELECT Q.ID, COUNT(*) AS vehicles FROM Fences Q, Vehicles O WHERE O INSIDE Q
  GROUP BY Q.ID HAVING COUNT(*) >= 5;
-- Triggers. Three buses that drive close together: one alert a minute for each that leads.
CREATE TRIGGER bunching /*+ TIGHT */ FOR Vehicles AS V[3]
  WHEN V.type = 'bus' AND V.speed > 5 AND V.id <> V.id AND DISTANCE(V, V) <= 0.004 AND SPAN(V) <= '10 seconds'
  REPORT FIRST EVERY '1 minute' PER V[1].id;
-- Somebody speeds, and no police car was or comes near.
CREATE TRIGGER unseen /*+ TIGHT */ FOR Vehicles AS V WHEN V.speed > 78 AND V INSIDE (0.5, 0.5, 0.3)
  UNLESS Police AS p WHEN DISTANCE(p, V) <= 0.1 AND p.t - V.t IN [-5, 10]
  ALERT V.id, V.t, V.x, V.y, V.speed EVERY '10 seconds';
