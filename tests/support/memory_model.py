"""The reference Memory MCP server's semantics in a few lines of plain Python, as a model for tests.

Every call works on the whole graph in memory, as the server itself does.
"""

import copy


class NotThere(Exception):
    """What the server answers with an error."""


class Model:
    def __init__(self):
        self.entities = []
        self.relations = []

    def _first(self, name):
        return next((one for one in self.entities if one["name"] == name), None)

    def create_entities(self, entities):
        known = {one["name"] for one in self.entities}
        fresh = [copy.deepcopy(one) for one in entities if one["name"] not in known]
        self.entities += copy.deepcopy(fresh)
        return fresh

    def create_relations(self, relations):
        fresh = [one for one in relations if one not in self.relations]
        self.relations += fresh
        return fresh

    def add_observations(self, observations):
        before = copy.deepcopy(self.entities)
        results = []
        for item in observations:
            entity = self._first(item["entityName"])
            if entity is None:
                self.entities = before
                raise NotThere(f"Entity with name {item['entityName']} not found")
            fresh = [text for text in item["contents"] if text not in entity["observations"]]
            entity["observations"] += fresh
            results.append({"entityName": item["entityName"], "addedObservations": fresh})
        return results

    def delete_entities(self, names):
        self.entities = [one for one in self.entities if one["name"] not in names]
        self.relations = [
            one for one in self.relations if one["from"] not in names and one["to"] not in names
        ]

    def delete_observations(self, deletions):
        for item in deletions:
            entity = self._first(item["entityName"])
            if entity is not None:
                gone = item["observations"]
                entity["observations"] = [o for o in entity["observations"] if o not in gone]

    def delete_relations(self, relations):
        self.relations = [one for one in self.relations if one not in relations]

    def read_graph(self):
        return copy.deepcopy({"entities": self.entities, "relations": self.relations})

    def search_nodes(self, query):
        wanted = query.lower()
        return self._around(
            [
                one
                for one in self.entities
                if any(
                    wanted in text.lower()
                    for text in (one["name"], one["entityType"], *one["observations"])
                )
            ]
        )

    def open_nodes(self, names):
        return self._around([one for one in self.entities if one["name"] in names])

    def _around(self, entities):
        names = {one["name"] for one in entities}
        ends = [one for one in self.relations if one["from"] in names or one["to"] in names]
        return copy.deepcopy({"entities": entities, "relations": ends})
