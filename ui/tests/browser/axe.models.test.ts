import { testPlaces } from "./axe";
import { places } from "./places/models";

testPlaces(places);
