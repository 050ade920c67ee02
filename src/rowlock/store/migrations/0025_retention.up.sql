-- Retention that a deployment sets: beside the time that a rule keeps jobs for, what the code declares and what a person
-- has ordered. Two nullable columns without a default in a table of a few rows; `keep` stays what counts, so that code
-- of the release before goes on as it is. A worker of that release that starts later writes its own time into `keep`;
-- the next start of a newer worker restores the order.
-- For code made for version 2 or later.
ALTER TABLE {schema}.retention ADD COLUMN declared interval CHECK (declared >= '0 s'), ADD COLUMN ordered interval CHECK (ordered >= '0 s');
UPDATE {schema}.retention
SET declared = CASE WHEN kind <> '*' THEN keep WHEN state = '*' THEN '7 days' END,
    ordered = CASE WHEN kind = '*' AND (state <> '*' OR keep <> '7 days') THEN keep END;
