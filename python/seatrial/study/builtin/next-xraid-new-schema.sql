-- The schema change of the article: varchar in place of padded char, and unused columns dropped.
ALTER TABLE customers
    ALTER COLUMN name TYPE varchar(120) USING rtrim(name),
    ALTER COLUMN class_code TYPE varchar(8) USING rtrim(class_code),
    ALTER COLUMN region TYPE varchar(20) USING rtrim(region),
    DROP COLUMN profile;
ALTER TABLE orders
    ALTER COLUMN status TYPE varchar(10) USING rtrim(status),
    ALTER COLUMN class_code TYPE varchar(8) USING rtrim(class_code),
    ALTER COLUMN carrier TYPE varchar(20) USING rtrim(carrier),
    DROP COLUMN remark;
ALTER TABLE lines
    ALTER COLUMN class_code TYPE varchar(8) USING rtrim(class_code),
    ALTER COLUMN unit TYPE varchar(10) USING rtrim(unit);
