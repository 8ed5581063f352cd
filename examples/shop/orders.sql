-- The shop's own table. Reconciliation reads it through the queries in reconcile.toml, and never writes to it.
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (
    reference text PRIMARY KEY,
    customer text NOT NULL,
    amount numeric NOT NULL,
    currency text NOT NULL,
    zone text,
    webhook text,
    payout_expected_at timestamptz
);
INSERT INTO shop.orders VALUES
    ('order-1001', 'ada', 49.90, 'EUR', 'Europe/Berlin', 'http://127.0.0.1:8780/hook', '2026-11-27T00:00Z'),
    ('order-1002', 'bea', 120.00, 'EUR', 'Europe/Vienna', 'http://127.0.0.1:8780/hook', '2026-11-27T00:00Z'),
    ('order-1003', 'cem', 15.00, 'EUR', 'Europe/Berlin', 'http://127.0.0.1:8780/hook', '2026-11-27T00:00Z'),
    ('order-1004', 'dai', 4980, 'JPY', 'Asia/Tokyo', 'http://127.0.0.1:8780/hook', '2026-11-27T00:00Z'),
    -- Paid, but the payment names no order: until somebody finds out which, the order is missing.
    ('order-1005', 'eva', 79.00, 'EUR', 'Europe/Paris', 'http://127.0.0.1:8780/hook', '2026-11-27T00:00Z'),
    -- 59.00 were ordered, 49.00 paid.
    ('order-1006', 'fay', 59.00, 'EUR', 'Europe/Dublin', 'http://127.0.0.1:8780/hook', '2026-11-27T00:00Z'),
    -- Not to be paid out yet.
    ('order-1007', 'gus', 33.00, 'EUR', 'Europe/Berlin', 'http://127.0.0.1:8780/hook', '2099-01-01T00:00Z')
ON CONFLICT (reference) DO NOTHING;
