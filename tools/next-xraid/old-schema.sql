-- A shop as the article of 2008 found its own: strings of a fixed, generous length in every row.
-- psql sets :customers, :orders and :lines.
SELECT setseed(0.2008);

CREATE TABLE customers (
    id serial PRIMARY KEY,
    name char(120) NOT NULL,
    class_code char(80) NOT NULL,
    region char(80) NOT NULL,
    profile char(300) NOT NULL DEFAULT '',
    ordered integer NOT NULL DEFAULT 0
);
CREATE TABLE orders (
    id serial PRIMARY KEY,
    customer integer NOT NULL,
    status char(40) NOT NULL,
    class_code char(80) NOT NULL,
    carrier char(60) NOT NULL,
    remark char(300) NOT NULL DEFAULT '',
    total numeric(10, 2) NOT NULL,
    placed timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE lines (
    id serial PRIMARY KEY,
    order_id integer NOT NULL,
    product integer NOT NULL,
    class_code char(80) NOT NULL,
    unit char(60) NOT NULL,
    quantity integer NOT NULL,
    price numeric(10, 2) NOT NULL
);

INSERT INTO customers (name, class_code, region, ordered)
SELECT 'Customer ' || n, 'K' || n % 40, 'Region ' || n % 25, 0
FROM generate_series(1, :customers) AS n;
-- Whose order is whose has nothing to do with where it lies.
INSERT INTO orders (customer, status, class_code, carrier, total, placed)
SELECT 1 + (random() * (:customers - 1))::integer, 'shipped', 'K' || n % 40, 'Carrier ' || n % 7,
    (random() * 500)::numeric(10, 2), timestamptz '2026-01-01' + n * interval '10 seconds'
FROM generate_series(1, :orders) AS n;
INSERT INTO lines (order_id, product, class_code, unit, quantity, price)
SELECT 1 + (n - 1)::bigint * :orders / :lines, (random() * 5000)::integer, 'K' || n % 40, 'piece',
    1 + (random() * 4)::integer, (random() * 100)::numeric(10, 2)
FROM generate_series(1, :lines) AS n;

CREATE INDEX orders_customer ON orders (customer, id);
ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers;
CREATE INDEX lines_order ON lines (order_id);
ALTER TABLE lines ADD FOREIGN KEY (order_id) REFERENCES orders;
VACUUM ANALYZE;
