export const newJob = { title: "New job" };
