import { riverList } from './rivers.ts';
import { draw, pick, quote, seed, uuid } from './sample-sql.ts';
import { typeGallery } from './type-gallery.ts';

/** The name of the sample database. */
export const sampleDatabase = 'waterways';

const placesPerRiver = 5;
const stationCount = riverList.length * placesPerRiver;
/** Four readings a day at each station, all through the leap year 2024. */
const readingsPerStation = 4 * 366;
const readingCount = stationCount * readingsPerStation;
const operatorCount = 60;
const gateCount = 3 * stationCount;
const moveCount = 36_000;
const inspectionCount = 1_200;

/**
 * The sample database as SQL for `mariadbd --bootstrap`: one statement per element, no semicolons.
 *
 * The server makes the rows from its sequence tables. Pseudo-random values are checksums of the seed and the row's number and not
 * RAND(), so that every first start makes the same data. Needs MariaDB 10.11.
 */
export function sampleStatements(): string[] {
  return [
    `CREATE DATABASE ${sampleDatabase} CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci`,
    `USE ${sampleDatabase}`,
    `SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci`,
    `SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_UNSIGNED_SUBTRACTION'`,
    // With both checks off, InnoDB loads an empty table in bulk, without an undo record per row.
    `SET unique_checks = 0, foreign_key_checks = 0`,
    ...rivers(),
    ...operators(),
    ...stations(),
    ...gates(),
    ...readings(),
    ...alarms(),
    ...moves(),
    ...inspections(),
    ...typeGallery(),
    ...views(),
    `ANALYZE TABLE river, operator, station, gate, reading, alarm, gate_move, inspection`,
  ];
}

function rivers(): string[] {
  const rows = riverList.map(
    ({ name, country, length_km, flow_m3s, source, mouth }, index) =>
      `(${index + 1}, ${quote(name)}, '${country}', ${length_km}, ${flow_m3s}, ` +
      `POINT(${source.join(', ')}), ST_GeomFromText('LINESTRING(${source.join(' ')}, ${mouth.join(' ')})'))`,
  );
  return [
    `CREATE TABLE river (
      id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
      name VARCHAR(40) NOT NULL UNIQUE,
      country CHAR(2) CHARACTER SET ascii NOT NULL COMMENT 'of the mouth, ISO 3166',
      length_km DECIMAL(6,1) NOT NULL,
      mean_flow_m3s FLOAT NOT NULL,
      source POINT NOT NULL,
      course LINESTRING NOT NULL COMMENT 'as the crow flies',
      SPATIAL KEY (source)
    )`,
    `INSERT INTO river VALUES ${rows.join(', ')}`,
  ];
}

function operators(): string[] {
  const given = 'Ana,Björn,Chloé,Dmytro,Eleni,Füsun,Giulia,Håkon,Inês,Jürgen,Katarzyna,Līga,Miloš,Nguyệt,Øyvind,Zoë';
  const family = "O'Brien,Müller,Nowak,Čapek,Åström,García,Ðorđević,Yılmaz,Papadopoulos,Шевченко,山田,López";
  return [
    `CREATE TABLE operator (
      id SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
      badge UUID NOT NULL UNIQUE,
      name VARCHAR(80) NOT NULL,
      shift ENUM('early','late','night') NOT NULL,
      skills SET('diving','electrics','hydraulics','radio','welding') NOT NULL,
      shift_starts TIME NOT NULL,
      born DATE NOT NULL,
      hired YEAR NOT NULL,
      hourly_wage DECIMAL(6,2) NOT NULL,
      mentor_id SMALLINT UNSIGNED,
      key_digest BINARY(32) NOT NULL,
      note TINYTEXT,
      FOREIGN KEY (mentor_id) REFERENCES operator (id)
    )`,
    `INSERT INTO operator
      SELECT seq, ${uuid('badge')}, CONCAT(${pick('given', given)}, ' ', ${pick('family', family)}),
        ELT(1 + seq % 3, 'early', 'late', 'night'), ${draw('skills')} % 32,
        ELT(1 + seq % 3, '06:00:00', '14:00:00', '22:00:00'),
        '1960-01-01' + INTERVAL ${draw('born')} % 14000 DAY, 1999 + ${draw('hired')} % 25,
        18 + ${draw('wage')} % 2400 / 100, IF(seq <= 8, NULL, 1 + ${draw('mentor')} % 8),
        UNHEX(SHA2(CONCAT('${seed}', seq), 256)),
        ELT(1 + ${draw('note')} % 6, 'prefers e-mail ✉', 'first aid ⛑', '')
      FROM seq_1_to_${operatorCount}`,
  ];
}

function stations(): string[] {
  const places = riverList.flatMap((river) => river.places);
  return [
    `CREATE TABLE station (
      id SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
      river_id TINYINT UNSIGNED NOT NULL,
      name VARCHAR(40) NOT NULL,
      location POINT NOT NULL,
      river_km DECIMAL(6,1) NOT NULL COMMENT 'from the source',
      base_level_mm MEDIUMINT NOT NULL,
      alarm_level_mm MEDIUMINT NOT NULL,
      elevation_m SMALLINT NOT NULL,
      datum_offset_m DOUBLE NOT NULL,
      sensors SET('level','flow','temperature','turbidity') NOT NULL,
      address INET6 NOT NULL,
      fallback_address INET4,
      status BIT(8) NOT NULL,
      opened DATE NOT NULL,
      settings JSON NOT NULL,
      description TEXT,
      UNIQUE (river_id, river_km),
      SPATIAL KEY (location),
      FOREIGN KEY (river_id) REFERENCES river (id)
    )`,
    // Stations are evenly spaced on the line from source to mouth. The elevation falls along it.
    `INSERT INTO station
      SELECT s.seq, r.id, ELT(s.seq, ${places.map(quote).join(', ')}),
        POINT(ROUND(ST_X(r.source) + s.step * (ST_X(ST_EndPoint(r.course)) - ST_X(r.source)), 4),
              ROUND(ST_Y(r.source) + s.step * (ST_Y(ST_EndPoint(r.course)) - ST_Y(r.source)), 4)),
        r.length_km * s.step, s.base, s.base * 1.55, 1200 * (1 - s.step) * (1 - s.step) - 4,
        ROUND((${draw('datum', 's.seq')} % 20001 - 10000) / 7919, 6),
        IF(${draw('turbidity', 's.seq')} % 4 = 0, 'level,flow,temperature', 'level,flow,temperature,turbidity'),
        CONCAT('2001:db8:', HEX(r.id), '::', HEX(s.seq)), IF(s.seq % 5 = 0, NULL, CONCAT('192.0.2.', s.seq)),
        ${draw('status', 's.seq')} % 256, '1871-05-01' + INTERVAL ${draw('opened', 's.seq')} % 54000 DAY,
        JSON_OBJECT('interval_h', 6, 'unit', 'mm', 'thresholds', JSON_ARRAY(s.base, ROUND(s.base * 1.55)), 'remote', s.seq % 5 <> 0),
        IF(s.seq % 3 = 0, NULL, CONCAT('Gauge on the ', r.name, ',\\n', IF(s.seq % 2, 'left', 'right'), ' bank — "', ELT(1 + s.seq % 4, 'old mill', 'railway bridge', 'harbour', 'café terrace'), '"'))
      FROM (
        SELECT seq, (seq - 1) DIV ${placesPerRiver} + 1 AS river_id,
          (0.7 + (seq - 1) % ${placesPerRiver}) / ${placesPerRiver} AS step,
          1200 + ${draw('base')} % 4000 AS base
        FROM seq_1_to_${stationCount}
      ) AS s JOIN river AS r ON r.id = s.river_id ORDER BY s.seq`,
  ];
}

function gates(): string[] {
  return [
    `CREATE TABLE gate (
      id INT UNSIGNED NOT NULL PRIMARY KEY,
      station_id SMALLINT UNSIGNED NOT NULL,
      position TINYINT UNSIGNED NOT NULL,
      kind ENUM('radial','vertical lift','flap','mitre') NOT NULL,
      width_m DECIMAL(5,2) NOT NULL,
      open_percent TINYINT UNSIGNED NOT NULL,
      motor_hours FLOAT,
      turns BIGINT NOT NULL,
      is_remote BOOLEAN NOT NULL,
      installed YEAR,
      firmware VARBINARY(16),
      basin POLYGON,
      UNIQUE (station_id, position),
      FOREIGN KEY (station_id) REFERENCES station (id)
    )`,
    `INSERT INTO gate
      SELECT seq, (seq - 1) DIV 3 + 1, (seq - 1) % 3 + 1,
        ELT(1 + ${draw('kind')} % 4, 'radial', 'vertical lift', 'flap', 'mitre'), 2.5 + ${draw('width')} % 2200 / 100,
        ${draw('open')} % 101, IF(seq % 9 = 0, NULL, ${draw('hours')} % 400000 / 8),
        ${draw('turns')} * 2097152, ${draw('remote')} % 3 > 0, IF(seq % 11 = 0, NULL, 1950 + ${draw('installed')} % 74),
        IF(seq % 7 = 0, NULL, UNHEX(LEFT(MD5(CONCAT('${seed}', seq)), 2 * (4 + seq % 13)))),
        IF(seq % 4 = 0, NULL, ST_GeomFromText(CONCAT('POLYGON((0 0, ', seq % 40 + 5, ' 0, ', seq % 40 + 5, ' 12, 0 12, 0 0))')))
      FROM seq_1_to_${gateCount}`,
  ];
}

function readings(): string[] {
  // A level is the sum of the station's base, a yearly and a fortnightly wave, noise, and sometimes a flood that falls over two
  // days. The other columns are computed from the level, so that they are consistent.
  const year = `2 * PI() * slot / ${readingsPerStation}`;
  const noise = `(noise % 1000 - 500) / 500`;
  const ebb = `(slot + 37 * station_id) % 211`;
  const relative = `1 + 0.25 * SIN(${year} + 0.6) + 0.06 * SIN(slot / 9 + station_id) + 0.03 * ${noise}
    + IF(${ebb} < 8, 0.6 * (8 - ${ebb}) / 8, 0)`;
  return [
    `CREATE TABLE reading (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
      station_id SMALLINT UNSIGNED NOT NULL,
      taken_at TIMESTAMP(3) NOT NULL,
      level_mm MEDIUMINT NOT NULL,
      flow_m3s DOUBLE NOT NULL,
      temperature_c DECIMAL(4,1),
      turbidity_ntu FLOAT,
      battery_percent TINYINT UNSIGNED NOT NULL,
      quality ENUM('good','suspect','estimated') NOT NULL,
      KEY (station_id, taken_at),
      FOREIGN KEY (station_id) REFERENCES station (id)
    )`,
    `INSERT INTO reading
      SELECT n.seq + 1, n.station_id,
        '2024-01-01' + INTERVAL 21600 * n.slot + n.noise % 300 SECOND + INTERVAL 1000 * (n.noise % 997) MICROSECOND,
        s.base_level_mm * n.relative,
        ROUND(r.mean_flow_m3s * s.river_km / r.length_km * POW(n.relative, 1.6), 3),
        IF(n.noise % 41 = 0, NULL, 11 - 9 * COS(${year} - 0.4) + 2 * ${noise}),
        IF(FIND_IN_SET('turbidity', s.sensors), ROUND(8 + 60 * (n.relative - 0.6) * (n.relative - 0.6) + n.noise % 90 / 10, 1), NULL),
        100 - (n.slot + n.station_id) % 240 DIV 3,
        IF(n.noise % 97 = 0, 'suspect', IF(n.noise % 41 = 0, 'estimated', 'good'))
      FROM (
        SELECT m.*, ${relative} AS relative
        FROM (
          SELECT seq, seq % ${stationCount} + 1 AS station_id, seq DIV ${stationCount} AS slot, ${draw('reading')} AS noise
          FROM seq_0_to_${readingCount - 1}
        ) AS m
      ) AS n JOIN station AS s ON s.id = n.station_id JOIN river AS r ON r.id = s.river_id
      ORDER BY n.seq`,
  ];
}

function alarms(): string[] {
  return [
    `CREATE TABLE alarm (
      id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
      reading_id BIGINT UNSIGNED NOT NULL UNIQUE,
      raised_at DATETIME(6) NOT NULL,
      severity ENUM('notice','warning','flood') NOT NULL,
      above_mm SMALLINT UNSIGNED NOT NULL,
      lasted TIME(3) COMMENT 'may pass 24 hours',
      cleared_by SMALLINT UNSIGNED,
      details JSON NOT NULL,
      FOREIGN KEY (reading_id) REFERENCES reading (id),
      FOREIGN KEY (cleared_by) REFERENCES operator (id)
    )`,
    // Every reading above its station's alarm level has raised an alarm. The alarms of December are still open.
    `INSERT INTO alarm
      SELECT a.seq, a.reading_id, a.taken_at + INTERVAL 250001 + a.noise % 500000 MICROSECOND,
        IF(a.above > 900, 'flood', IF(a.above > 300, 'warning', 'notice')), a.above,
        IF(a.taken_at >= '2024-12-01', NULL, SEC_TO_TIME(600 + a.noise % 170000 + a.noise % 1000 / 1000)),
        IF(a.taken_at >= '2024-12-01', NULL, 1 + a.noise % ${operatorCount}),
        JSON_OBJECT('station', a.name, 'level_mm', a.level_mm, 'sirens', a.above > 900, 'notified', JSON_ARRAY('sms', 'radio'))
      FROM (
        SELECT ROW_NUMBER() OVER (ORDER BY g.id) AS seq, g.id AS reading_id, g.taken_at, g.level_mm, s.name,
          g.level_mm - s.alarm_level_mm AS above, ${draw('alarm', 'g.id')} AS noise
        FROM reading AS g JOIN station AS s ON s.id = g.station_id
        WHERE g.level_mm > s.alarm_level_mm
      ) AS a ORDER BY a.seq`,
  ];
}

function moves(): string[] {
  return [
    `CREATE TABLE gate_move (
      id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
      gate_id INT UNSIGNED NOT NULL,
      operator_id SMALLINT UNSIGNED COMMENT 'null: moved by the controller',
      started_at DATETIME NOT NULL,
      change_percent TINYINT NOT NULL,
      took TIME(1) NOT NULL,
      energy_wh MEDIUMINT UNSIGNED NOT NULL,
      sequence_no BIGINT UNSIGNED NOT NULL,
      KEY (gate_id, started_at),
      FOREIGN KEY (gate_id) REFERENCES gate (id),
      FOREIGN KEY (operator_id) REFERENCES operator (id)
    )`,
    `INSERT INTO gate_move
      SELECT seq, 1 + ${draw('gate')} % ${gateCount}, IF(${draw('by')} % 3 = 0, NULL, 1 + ${draw('operator')} % ${operatorCount}),
        '2024-01-01' + INTERVAL seq * 878 + ${draw('start')} % 800 SECOND, ${draw('change')} % 201 - 100,
        SEC_TO_TIME(${draw('took')} % 3000 / 10), 40 + ${draw('energy')} % 90000, 18446744073709000000 + seq
      FROM seq_1_to_${moveCount}`,
  ];
}

function inspections(): string[] {
  return [
    `CREATE TABLE inspection (
      id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
      gate_id INT UNSIGNED NOT NULL,
      operator_id SMALLINT UNSIGNED NOT NULL,
      held_on DATE NOT NULL,
      passed BIT(1) NOT NULL,
      cost DECIMAL(12,4),
      report MEDIUMTEXT NOT NULL,
      photo MEDIUMBLOB,
      signature BLOB NOT NULL,
      FOREIGN KEY (gate_id) REFERENCES gate (id),
      FOREIGN KEY (operator_id) REFERENCES operator (id)
    )`,
    `INSERT INTO inspection
      SELECT seq, 1 + ${draw('inspected')} % ${gateCount}, 1 + ${draw('inspector')} % ${operatorCount},
        '2024-01-02' + INTERVAL seq * 0.3 DAY, ${draw('passed')} % 8 > 0,
        IF(seq % 6 = 0, NULL, ${draw('cost')} % 90000000 / 10000),
        CONCAT('Inspection № ', seq, '\\n\\n', REPEAT(ELT(1 + seq % 3, 'Seals tight, chain greased. ', 'Corrosion ≤ 2 mm at the hinge. ', 'Débris removed; motor runs. '), 1 + ${draw('report')} % 30)),
        IF(seq % 4 = 0, UNHEX(CONCAT('89504E470D0A1A0A', REPEAT(SHA2(CONCAT('${seed}photo', seq), 512), 8))), NULL),
        UNHEX(SHA1(CONCAT('${seed}', seq)))
      FROM seq_1_to_${inspectionCount}`,
  ];
}

function views(): string[] {
  // There is a definer because the user of --bootstrap has no account.
  const create = `CREATE DEFINER = root@localhost SQL SECURITY INVOKER VIEW`;
  return [
    `${create} daily_level AS
      SELECT station_id, CAST(taken_at AS DATE) AS day, MIN(level_mm) AS lowest_mm, MAX(level_mm) AS highest_mm,
        AVG(level_mm) AS mean_mm, AVG(temperature_c) AS mean_temperature_c
      FROM reading GROUP BY station_id, CAST(taken_at AS DATE)`,
    `${create} station_now AS
      SELECT s.id, r.name AS river, s.name AS station, r.country, g.taken_at, g.level_mm, g.flow_m3s, g.temperature_c,
        g.level_mm > s.alarm_level_mm AS in_alarm
      FROM station AS s JOIN river AS r ON r.id = s.river_id
        JOIN reading AS g ON g.station_id = s.id
          AND g.taken_at = (SELECT MAX(taken_at) FROM reading WHERE station_id = s.id)`,
    `${create} open_alarm AS
      SELECT a.id, a.raised_at, a.severity, a.above_mm, r.name AS river, s.name AS station
      FROM alarm AS a JOIN reading AS g ON g.id = a.reading_id JOIN station AS s ON s.id = g.station_id
        JOIN river AS r ON r.id = s.river_id
      WHERE a.cleared_by IS NULL`,
  ];
}
